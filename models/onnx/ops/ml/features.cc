// What is done with features before a model of ai.onnx.ml, and with its answers after it.
//
// Tested by tests/onnx/ml_test.py.
#include "models/onnx/ops/ml/ml.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// A list that has one number for all features, or one for each: along the last axis.
absl::StatusOr<Tensor> Each(Node& node, absl::string_view name, const std::vector<double>& list, Tensor x) {
  const auto count = static_cast<int64_t>(list.size());
  if (count == 1) return node.Make(list, {}, x.dtype());
  if (x.rank() < 1 || x.size(-1) != count)
    return node.Bad(absl::StrCat(count, " numbers of ", name, " for ", ShapeText(x.sizes())));
  return node.Make(list, {count}, x.dtype());
}

Result Scaler(Node& node) {
  const Tensor x = Cast(node.In(0), v1::FLOAT32);
  KILN_ASSIGN_OR_RETURN(const Tensor offset, Each(node, "offset", node.Floats("offset", {0}), x));
  KILN_ASSIGN_OR_RETURN(const Tensor scale, Each(node, "scale", node.Floats("scale", {1}), x));
  return (x - offset) * scale;
}

struct Norm {
  absl::string_view name;
  Tensor (*function)(Tensor x);
};

// MAX is the greatest number, not the greatest size.
constexpr Norm kNorms[] = {
    {"MAX", [](Tensor x) { return Max(x, -1, true); }},
    {"L1", [](Tensor x) { return Sum(Abs(x), -1, true); }},
    {"L2", [](Tensor x) { return Sqrt(Sum(Square(x), -1, true)); }},
};

Result Normalizer(Node& node) {
  const std::string name = node.Text("norm", "MAX");
  const Tensor x = Cast(node.In(0), v1::FLOAT32);
  if (x.rank() != 1 && x.rank() != 2) return node.Bad("takes (rows, features)");
  for (const Norm& row : kNorms) {
    if (row.name != name) continue;
    const Tensor norm = row.function(x);
    return Where(norm == 0.0, x, x / norm);
  }
  return node.Bad(absl::StrCat("norm \"", absl::CHexEscape(name), "\"; it is MAX, L1 or L2"));
}

// Whether a number is above the threshold. Beside integers it is the whole number below it.
Result Binarizer(Node& node) {
  const Tensor x = node.In(0);
  const double threshold = node.Float("threshold");
  if (IsFloat(x.dtype())) return Cast(x > threshold, x.dtype());
  return Cast(Cast(x, v1::FLOAT64) > threshold, x.dtype());
}

// One number, perhaps NaN, is replaced.
Result Imputer(Node& node) {
  const Tensor x = node.In(0);
  if (IsFloat(x.dtype())) {
    const double replaced = node.Float("replaced_value_float");
    KILN_ASSIGN_OR_RETURN(const Tensor with,
                          Each(node, "imputed_value_floats", node.Floats("imputed_value_floats"), x));
    return Where(replaced != replaced ? x != x : x == replaced, BroadcastTo(with, x.sizes()), x);
  }
  if (x.dtype() != v1::INT64) return node.Bad(absl::StrCat(DTypeName(x.dtype()), "; floats and int64 are taken"));
  const std::vector<int64_t> with = node.Ints("imputed_value_int64s");
  const auto count = static_cast<int64_t>(with.size());
  if (count != 1 && (x.rank() < 1 || x.size(-1) != count))
    return node.Bad(absl::StrCat(count, " numbers of imputed_value_int64s for ", ShapeText(x.sizes())));
  const Tensor numbers = node.Make(with);
  return Where(x == node.Int("replaced_value_int64"),
               BroadcastTo(count == 1 ? Reshape(numbers, Sizes()) : numbers, x.sizes()), x);
}

// Rows of several inputs beside each other, each cut or filled with zeros to its part of inputdimensions.
Result FeatureVectorizer(Node& node) {
  const std::vector<int64_t> widths = node.Ints("inputdimensions");
  if (widths.size() != node.inputs())
    return node.Bad(absl::StrCat(widths.size(), " inputdimensions for ", node.inputs(), " inputs"));
  std::vector<Tensor> parts;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (!node.Has(i)) return node.Bad(absl::StrCat("input ", i, " is missing"));
    Tensor x = Cast(node.In(i), v1::FLOAT32);
    if (x.rank() < 1 || widths[i] < 0 || widths[i] > int64_t{1} << 30)
      return node.Bad("takes (rows, features), and inputdimensions from 0 to 2^30");
    x = x.rank() == 1 ? Unsqueeze(x, 0) : client::Flatten(x, 1);
    KILN_ASSIGN_OR_RETURN(const int64_t width, node.Dim(x, 1));
    x = Part(x, 1, 0, std::min(width, widths[i]));
    parts.push_back(Pad(x, {{0, 0}, {0, std::max<int64_t>(0, widths[i] - width)}}));
  }
  return Joined(parts, 1);
}

// Features chosen by their places.
Result ArrayFeatureExtractor(Node& node) {
  const Tensor x = node.In(0);
  if (x.rank() < 1 || !IsInteger(node.In(1).dtype())) return node.Bad("takes (…, features), and integers");
  return IndexSelect(x.rank() == 1 ? Unsqueeze(x, 0) : x, std::max<int64_t>(1, x.rank() - 1),
                     Reshape(node.In(1), {-1}));
}

// The keys or the values of a map, whichever of its attributes is there.
absl::StatusOr<Tensor> Side(Node& node, const std::string& name) {
  if (node.HasAttribute(name + "_strings")) return node.Refuse(absl::StrCat(name, "_strings: strings are not taken"));
  if (node.HasAttribute(name + "_tensor")) {
    KILN_ASSIGN_OR_RETURN(HostTensor tensor, node.TensorOf(name + "_tensor"));
    return Reshape(node.Make(std::move(tensor)), {-1});
  }
  if (node.HasAttribute(name + "_int64s")) return node.Make(node.Ints(name + "_int64s"));
  const std::vector<double> floats = node.Floats(name + "_floats");
  return node.Make(floats, {static_cast<int64_t>(floats.size())}, v1::FLOAT32);
}

// A map from numbers to numbers, with a value for what is no key. Of a key twice the first counts. As of
// opset 4 NaN is a key, too.
Result LabelEncoder(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const Tensor keys, Side(node, "keys"));
  KILN_ASSIGN_OR_RETURN(const Tensor values, Side(node, "values"));
  if (!keys.valid() || !values.valid()) return keys;
  if (keys.size(0) != values.size(0) || keys.size(0) == 0 || keys.dtype() != x.dtype()) {
    return node.Bad(absl::StrCat("keys of ", TypeText(keys.dtype(), keys.sizes()), " and values of ",
                                 TypeText(values.dtype(), values.sizes()), " for ", TypeText(x.dtype(), x.sizes())));
  }
  Tensor otherwise;
  if (node.HasAttribute("default_tensor")) {
    KILN_ASSIGN_OR_RETURN(HostTensor tensor, node.TensorOf("default_tensor"));
    otherwise = node.Make(std::move(tensor));
    if (!otherwise.valid() || otherwise.sizes().Count() != 1 || otherwise.dtype() != values.dtype())
      return node.Bad("default_tensor is one value");
    otherwise = Reshape(otherwise, Sizes());
  } else if (IsFloat(values.dtype())) {
    otherwise = node.graph().Constant(node.Float("default_float", -0.0), values.dtype());
  } else {
    otherwise = node.graph().Constant(node.Int("default_int64", -1), values.dtype());
  }
  const Tensor each = Unsqueeze(x, -1);
  Tensor same = each == keys;
  if (IsFloat(x.dtype()) && node.opset() >= 4) same = same | ((each != each) & (keys != keys));
  const Tensor place = Reshape(ArgMax(Cast(same, v1::INT32), -1), {-1});
  return Where(Any(same, -1), Reshape(Index(values, {place}), x.sizes()), otherwise);
}

// A new last axis with 1 where its category is the number. Of what is none all are 0, also where `zeros` is 0 and the
// standard would fail: a program looks at no values.
Result OneHotEncoder(Node& node) {
  if (!node.Texts("cats_strings").empty()) return node.Refuse("cats_strings: strings are not taken");
  const std::vector<int64_t> categories = node.Ints("cats_int64s");
  if (categories.empty()) return node.Bad("there is no attribute cats_int64s");
  const Tensor x = Cast(node.In(0), v1::INT64);
  return Cast(Unsqueeze(x, -1) == node.Make(categories), v1::FLOAT32);
}

// Maps are no tensors.
Result Maps(Node& node) {
  return node.Refuse(
      "it makes or takes maps, and there are tensors alone; leave the node out (skl2onnx: zipmap=False)");
}

Result Strings(Node& node) { return node.Refuse("it makes or takes strings; LabelEncoder between integers is taken"); }

constexpr OpRow kRows[] = {
    {"Scaler", 1, Scaler, 1, 1, kMl},
    {"Normalizer", 1, Normalizer, 1, 1, kMl},
    {"Binarizer", 1, Binarizer, 1, 1, kMl},
    {"Imputer", 1, Imputer, 1, 1, kMl},
    {"FeatureVectorizer", 1, FeatureVectorizer, 1, kAny, kMl},
    {"ArrayFeatureExtractor", 1, ArrayFeatureExtractor, 2, 2, kMl},
    {"LabelEncoder", 2, LabelEncoder, 1, 1, kMl},
    {"OneHotEncoder", 1, OneHotEncoder, 1, 1, kMl},
    {"ZipMap", 1, Maps, 0, kAny, kMl},
    {"CastMap", 1, Maps, 0, kAny, kMl},
    {"DictVectorizer", 1, Maps, 0, kAny, kMl},
    {"CategoryMapper", 1, Strings, 0, kAny, kMl},
};

}  // namespace

OpRows MlFeatureOps() { return kRows; }

}  // namespace kiln::onnx
