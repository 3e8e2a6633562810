// Tested by tests/onnx/ml_test.py.
#include "models/onnx/ops/ml/ml.h"

#include "models/onnx/known.h"

namespace kiln::onnx {

using namespace client;  // NOLINT: the builder's functions are this room's words

namespace {

// The inverse of erf as Winitzki's formula has it, which onnxruntime takes, too: from -1 to 1, else NaN.
Tensor InverseErf(Tensor x) {
  constexpr double kA = 0.147, kPi = 3.14159265358979323846;
  const Tensor log = Log((1.0 - x) * (1.0 + x)), half = log * 0.5 + 2 / (kPi * kA);
  const Tensor size = Sqrt(Sqrt(half * half - log * (1 / kA)) - half);
  return Where(x < 0.0, -size, size);
}

// Shares of those that are not 0; the others stay what they are.
Tensor SoftmaxZero(Tensor x) {
  const Tensor most = Max(x, -1, true), some = Abs(x) > 1e-7;
  const Tensor shares = Exp(x - most);
  return Where(some, shares, x * Exp(-most)) / Sum(Where(some, shares, 0.0), -1, true);
}

struct Transform {
  absl::string_view name;
  Tensor (*function)(Tensor scores);
};

constexpr Transform kTransforms[] = {
    {"NONE", [](Tensor x) { return x; }},
    {"LOGISTIC", [](Tensor x) { return Sigmoid(x); }},
    {"SOFTMAX", [](Tensor x) { return Softmax(x, -1); }},
    {"SOFTMAX_ZERO", [](Tensor x) { return SoftmaxZero(x); }},
    {"PROBIT", [](Tensor x) { return InverseErf(x * 2.0 - 1.0) * 1.41421356; }},
};

}  // namespace

absl::StatusOr<Tensor> Features(Node& node, Tensor x, bool doubles) {
  if (x.rank() != 1 && x.rank() != 2)
    return node.Bad(absl::StrCat("takes (rows, features), not ", ShapeText(x.sizes())));
  const Tensor numbers = Cast(x, doubles && x.dtype() == v1::FLOAT64 ? v1::FLOAT64 : v1::FLOAT32);
  return x.rank() == 1 ? Unsqueeze(numbers, 0) : numbers;
}

absl::StatusOr<std::string> PostTransform(Node& node, int64_t targets) {
  const std::string name = node.Text("post_transform", "NONE");
  if (targets == 1 && name != "NONE" && name != "PROBIT") {
    return node.Refuse(absl::StrCat("post_transform ", absl::CHexEscape(name),
                                    " of one target: the standard transforms it, onnxruntime does not; NONE is taken"));
  }
  std::string names;
  for (const Transform& row : kTransforms) {
    if (row.name == name) return name;
    absl::StrAppend(&names, names.empty() ? "" : ", ", row.name);
  }
  return node.Bad(absl::StrCat("post_transform \"", absl::CHexEscape(name), "\"; there are ", names));
}

Tensor Transformed(Tensor scores, const std::string& transform) {
  for (const Transform& row : kTransforms) {
    if (row.name == transform && scores.valid()) return row.function(scores);
  }
  return scores;
}

absl::StatusOr<Tensor> OfTwoClasses(Node& node, Tensor score, const std::string& transform, bool shares) {
  if (transform == "PROBIT") return node.Refuse("post_transform PROBIT of one score for two classes");
  const Tensor other = shares && transform != "LOGISTIC" ? 1.0 - score : -score;
  const Tensor both = Joined({other, score}, 1);
  return transform == "LOGISTIC" ? Sigmoid(both) : both;
}

absl::StatusOr<std::vector<int64_t>> Labels(Node& node, absl::string_view integers) {
  if (!node.Texts("classlabels_strings").empty())
    return node.Refuse(absl::StrCat("labels of strings; ", integers, " is taken, and the caller keeps the names"));
  std::vector<int64_t> labels = node.Ints(integers);
  if (labels.empty()) return node.Bad(absl::StrCat("there is no attribute ", integers));
  return labels;
}

Tensor LabelsAt(Node& node, const std::vector<int64_t>& labels, Tensor places) {
  return Index(node.Make(labels), {Cast(places, v1::INT64)});
}

absl::StatusOr<std::vector<double>> RealsOfTensor(Node& node, const std::string& name) {
  KILN_ASSIGN_OR_RETURN(const HostTensor tensor, node.TensorOf(name));
  const int64_t count = ElementCount(tensor.shape).value_or(0);
  if (count > kMostNumbers)
    return node.Refuse(absl::StrCat("attribute ", name, " has ", count, " elements; up to 2^24 are taken"));
  const auto reals = RealsFromHost(tensor);
  if (!reals) return node.Refuse(absl::StrCat("attribute ", name, " has no numbers"));
  return *reals;
}

absl::StatusOr<std::vector<double>> RealsOf(Node& node, const std::string& name) {
  const std::string tensor = name + "_as_tensor";
  if (node.HasAttribute(tensor)) return RealsOfTensor(node, tensor);
  return node.Floats(name);
}

}  // namespace kiln::onnx
