// Normalizations: to a mean of 0 and a variance of 1, or to a length of 1.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// All axes from `first` on.
std::vector<int64_t> From(int64_t first, int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t axis = first; axis < rank; ++axis) axes.push_back(axis);
  return axes;
}

Result BatchNormalization(Node& node) {
  const Tensor x = node.In(0), wide = Widened(x);
  const int64_t rank = x.rank();
  const auto along = [&](Tensor vector) {
    return Along(Cast(vector, wide.dtype()), std::min<int64_t>(1, rank - 1), rank);
  };
  if (rank < 1) return node.Bad("takes (batch, channels, …)");
  Tensor mean = along(node.In(3)), variance = along(node.In(4));
  std::vector<Tensor> outputs(1);
  if (node.opset() >= 14 && node.Int("training_mode") != 0) {
    std::vector<int64_t> axes = AllAxes(rank);
    if (rank > 1) axes.erase(axes.begin() + 1);
    const double momentum = node.Float("momentum", 0.9F);
    const Tensor own = Mean(wide, axes, true), spread = Mean(Square(wide - own), axes, true);
    outputs.push_back(Cast(Reshape(mean * momentum + own * (1 - momentum), {-1}), node.In(3).dtype()));
    outputs.push_back(Cast(Reshape(variance * momentum + spread * (1 - momentum), {-1}), node.In(4).dtype()));
    mean = own;
    variance = spread;
  }
  const Tensor scale = along(node.In(1)) * Rsqrt(variance + node.Float("epsilon", 1e-5F));
  outputs[0] = Cast((wide - mean) * scale + along(node.In(2)), x.dtype());
  return outputs;
}

struct Normal {
  Tensor value, mean, inverse;
};

Normal Normalized(Tensor x, const std::vector<int64_t>& axes, double epsilon) {
  const Tensor mean = Mean(x, axes, true), centred = x - mean;
  const Tensor inverse = Rsqrt(Mean(Square(centred), axes, true) + epsilon);
  return {centred * inverse, mean, inverse};
}

Result InstanceNormalization(Node& node) {
  const Tensor x = node.In(0);
  const int64_t rank = x.rank();
  if (rank < 3) return node.Bad("takes (batch, channels, d1, …)");
  const Tensor normal = Normalized(Widened(x), From(2, rank), node.Float("epsilon", 1e-5F)).value;
  const auto along = [&](size_t i) { return Along(Widened(node.In(i)), 1, rank); };
  return Cast(normal * along(1) + along(2), x.dtype());
}

Result LayerNormalization(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", -1), x.rank()));
  const auto [value, mean, inverse] = Normalized(Widened(x), From(axis, x.rank()), node.Float("epsilon", 1e-5F));
  Tensor result = Cast(value, x.dtype()) * node.In(1);
  if (node.Has(2)) result = result + node.In(2);
  return std::vector<Tensor>{result, mean, inverse};
}

// Scale and bias are one number a group before opset 21, then one a channel.
Result GroupNormalization(Node& node) {
  const Tensor x = node.In(0);
  const int64_t groups = node.Int("num_groups"), rank = x.rank();
  KILN_ASSIGN_OR_RETURN(const int64_t channels, node.Dim(x, 1));
  if (rank < 2 || groups < 1 || channels % groups != 0)
    return node.Bad(absl::StrCat(channels, " channels in ", groups, " groups"));
  Sizes split = {x.size(0), groups, channels / groups};
  split.insert(split.end(), x.sizes().begin() + 2, x.sizes().end());
  const Tensor grouped = Reshape(Widened(x), split);
  Tensor result = Normalized(grouped, From(2, grouped.rank()), node.Float("epsilon", 1e-5F)).value;
  const bool by_group = node.In(1).size(0) == groups && groups != channels;
  const auto along = [&](size_t i) { return Along(Widened(node.In(i)), 1, by_group ? rank + 1 : rank); };
  if (!by_group) result = Reshape(result, x.sizes());
  return Cast(Reshape(result * along(1) + along(2), x.sizes()), x.dtype());
}

Result RmsNormalization(Node& node) {
  const Tensor x = node.In(0), wide = Widened(x);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", -1), x.rank()));
  const Tensor inverse = Rsqrt(Mean(Square(wide), From(axis, x.rank()), true) + node.Float("epsilon", 1e-5F));
  return Cast(wide * inverse, node.In(1).dtype()) * node.In(1);
}

Result LpNormalization(Node& node) {
  const Tensor x = node.In(0), wide = Widened(x);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", -1), x.rank()));
  const int64_t p = node.Int("p", 2);
  if (p != 1 && p != 2) return node.Bad("p is 1 or 2");
  const Tensor norm = p == 1 ? Sum(Abs(wide), axis, true) : Sqrt(Sum(Square(wide), axis, true));
  return Cast(Where(norm == 0.0, Filled(wide, 0), wide / norm), x.dtype());
}

// Each divided by a power of the sum of squares over so many channels around it.
Result Lrn(Node& node) {
  const Tensor x = node.In(0), wide = Widened(x);
  const int64_t size = node.Int("size");
  if (x.rank() < 2 || size < 1 || size > 1 << 20)
    return node.Bad("takes (batch, channels, …) and a size of at least 1");
  AxisRanges padding(static_cast<size_t>(x.rank()), {0, 0});
  padding[1] = {(size - 1) / 2, size - 1 - (size - 1) / 2};
  const Tensor sum = Sum(SlidingWindow(Pad(Square(wide), padding), 1, {.size = size}), -1);
  const double alpha = node.Float("alpha", 0.0001F) / static_cast<double>(size);
  return Cast(wide / Pow(sum * alpha + node.Float("bias", 1), node.Float("beta", 0.75F)), x.dtype());
}

Result MeanVarianceNormalization(Node& node) {
  const Tensor x = node.In(0), wide = Widened(x);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.Axes(node.Ints("axes", {0, 2, 3}), x.rank()));
  const Tensor centred = wide - Mean(wide, axes, true);
  return Cast(centred / (Sqrt(Mean(Square(centred), axes, true)) + 1e-9), x.dtype());
}

// com.microsoft: input + skip (+ bias), then LayerNorm, or RMSNorm, over the last axis. The sum is output 3.
template <bool kSimple>
Result SkipLayerNormalization(Node& node) {
  const Tensor x = node.In(0);
  Tensor sum = x + node.In(1);
  const size_t bias = kSimple ? 3 : 4;
  if (node.Has(bias)) sum = sum + node.In(bias);
  const Tensor wide = Widened(sum);
  const double epsilon = node.Float("epsilon", 1e-12F);
  Tensor result =
      kSimple ? wide * Rsqrt(Mean(Square(wide), -1, true) + epsilon) : Normalized(wide, {x.rank() - 1}, epsilon).value;
  result = Cast(result, x.dtype()) * node.In(2);
  if (!kSimple && node.Has(3)) result = result + node.In(3);
  return std::vector<Tensor>{result, Tensor(), Tensor(), sum};
}

// com.microsoft: what a transformer begins with. Words, their places and (if there are any) segments have a row of
// numbers each; the rows are added, and normalized over the last axis. Output 1 counts the words of each sentence.
Result EmbedLayerNormalization(Node& node) {
  for (const size_t i : {2, 3, 5, 6}) {
    if (!node.Has(i)) return node.Bad(absl::StrCat("input ", i, " is missing"));
  }
  const Tensor ids = node.In(0), table = node.In(2), places = node.In(3);
  if (ids.rank() != 2 || table.rank() != 2 || places.rank() != 2)
    return node.Bad("takes (batch, length) and tables (rows, size)");
  if (node.Has(1) != node.Has(4)) return node.Bad("segments and their table are there together");
  Tensor sum = Embedding(table, ids) + (node.Has(8) ? Embedding(places, node.In(8)) : Part(places, 0, 0, ids.size(1)));
  if (node.Has(1)) sum = sum + Embedding(node.In(4), node.In(1));
  const Tensor normal = Normalized(Widened(sum), {2}, node.Float("epsilon", 1e-12F)).value;
  const Tensor words =
      node.Has(7) ? Sum(Cast(node.In(7) == 1, v1::INT32), 1) : node.graph().Zeros({ids.size(0)}, v1::INT32);
  return std::vector<Tensor>{Cast(normal, table.dtype()) * node.In(5) + node.In(6), words, sum};
}

constexpr OpRow kRows[] = {
    {"BatchNormalization", 7, BatchNormalization, 5, 5},
    {"InstanceNormalization", 6, InstanceNormalization, 3, 3},
    {"LayerNormalization", 17, LayerNormalization, 2, 3},
    {"LayerNormalization", 1, LayerNormalization, 2, 3},
    {"SimplifiedLayerNormalization", 1, RmsNormalization, 2, 2},
    {"GroupNormalization", 18, GroupNormalization, 3, 3},
    {"RMSNormalization", 23, RmsNormalization, 2, 2},
    {"LpNormalization", 1, LpNormalization, 1, 1},
    {"LRN", 1, Lrn, 1, 1},
    {"MeanVarianceNormalization", 9, MeanVarianceNormalization, 1, 1},
    {"SkipLayerNormalization", 1, SkipLayerNormalization<false>, 3, 5, kMicrosoft},
    {"SkipSimplifiedLayerNormalization", 1, SkipLayerNormalization<true>, 3, 4, kMicrosoft},
    {"EmbedLayerNormalization", 1, EmbedLayerNormalization, 1, 9, kMicrosoft},
};

}  // namespace

OpRows NormalizationOps() { return kRows; }

}  // namespace kiln::onnx
