// Convolutions.
#include "models/onnx/ops/spatial.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

absl::StatusOr<std::vector<int64_t>> KernelOf(Node& node, Tensor weight) {
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(weight));
  if (shape.size() < 3) return node.Bad("a weight is (out, in / groups, kernel…)");
  return Shape(shape.begin() + 2, shape.end());
}

Result Conv(Node& node) {
  KILN_ASSIGN_OR_RETURN(auto kernel, KernelOf(node, node.In(1)));
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, node.In(0), std::move(kernel)));
  return Convolved(node, node.In(0), node.In(1), node.In(2), node.Int("group", 1), window);
}

// The input with stride - 1 zeros between its elements, under the filters turned round.
Result ConvTranspose(Node& node) {
  Tensor x = node.In(0), weight = node.In(1);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, KernelOf(node, weight));
  KILN_ASSIGN_OR_RETURN(const Shape filter, node.Dims(weight));
  const size_t axes = kernel.size();
  if (static_cast<int64_t>(axes) + 2 != x.rank()) return node.Bad("weight and input differ in rank");
  const std::vector<int64_t> ones(axes, 1), none(axes, 0);
  const std::vector<int64_t> stride = node.Ints("strides", ones), dilation = node.Ints("dilations", ones);
  const std::vector<int64_t> more = node.Ints("output_padding", none), shape = node.Ints("output_shape");
  std::vector<int64_t> pads = node.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  const int64_t groups = node.Int("group", 1), in = filter[0], out = filter[1];
  if (stride.size() != axes || dilation.size() != axes || more.size() != axes || pads.size() != 2 * axes ||
      (!shape.empty() && shape.size() != axes)) {
    return node.Bad("an attribute is not one number an axis");
  }
  if (groups < 1 || in % groups != 0 || x.size(1) != in) return node.Bad(absl::StrCat("an input of ", ShapeText(x.sizes()), " and a weight of ", ShapeText(filter)));
  const std::string automatic = node.Text("auto_pad", "NOTSET");
  Window window{kernel, std::vector<int64_t>(axes, 1), dilation, {}, {}, none, {}};
  AxisRanges spread(static_cast<size_t>(x.rank()), {0, 0});
  for (size_t i = 0; i < axes; ++i) {
    const auto axis = static_cast<int64_t>(i) + 2;
    KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, axis));
    constexpr int64_t kMost = int64_t{1} << 24;
    if (size < 1 || stride[i] < 1 || stride[i] > kMost || dilation[i] < 1 || dilation[i] > kMost || more[i] < 0 ||
        more[i] > kMost || kernel[i] < 1 || kernel[i] > kMost) {
      return node.Bad("an attribute is out of range");
    }
    const int64_t reach = (kernel[i] - 1) * dilation[i], full = (size - 1) * stride[i] + reach + 1 + more[i];
    if (!shape.empty() || automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t wanted = shape.empty() ? size * stride[i] : shape[i];
      const int64_t total = full - wanted;
      pads[i] = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      pads[i + axes] = total - pads[i];
    }
    // Between the elements, then around them; what is negative is cut away.
    Sizes apart = x.sizes();
    apart.insert(apart.begin() + axis + 1, 1);
    AxisRanges gap(apart.size(), {0, 0});
    gap[axis + 1].second = stride[i] - 1;
    Sizes joined = x.sizes();
    joined[axis] = size * stride[i];
    x = Part(Reshape(Pad(Reshape(x, apart), gap), joined), axis, 0, (size - 1) * stride[i] + 1);
    if (!x.valid()) return x;
    const int64_t before = reach - pads[i], after = reach - pads[i + axes] + more[i];
    x = Part(x, axis, std::max<int64_t>(0, -before), x.size(axis) - std::max<int64_t>(0, -after));
    if (!x.valid()) return x;
    window.before.push_back(std::max<int64_t>(0, before));
    window.after.push_back(std::max<int64_t>(0, after));
    const int64_t windows = x.size(axis).greatest() + window.before[i] + window.after[i] - reach;
    if (windows < 1) return node.Bad("the pads leave nothing");
    window.windows.push_back(windows);
  }
  // (in, out / groups, kernel…) to (out, in / groups, kernel…), each filter flipped.
  Sizes split = {groups, in / groups, out}, turned = {groups * out, in / groups};
  std::vector<int64_t> order = {0, 2, 1}, flipped;
  for (size_t i = 0; i < axes; ++i) {
    split.push_back(kernel[i]);
    turned.push_back(kernel[i]);
    order.push_back(static_cast<int64_t>(i) + 3);
    flipped.push_back(static_cast<int64_t>(i) + 2);
  }
  weight = Flip(Reshape(Permute(Reshape(weight, split), order), turned), flipped);
  return Convolved(node, x, weight, node.In(2), groups, window);
}

// Integers, less their zero points, in 32 bits.
Tensor Centred(Tensor x, Tensor zero, int64_t axis) {
  const Tensor wide = Cast(x, v1::INT32);
  if (!zero.valid()) return wide;
  const Tensor point = Cast(zero, v1::INT32);
  return wide - (zero.rank() == 1 && zero.size(0) != 1 ? Along(point, axis, x.rank()) : Reshape(point, Sizes()));
}

Result ConvInteger(Node& node) {
  KILN_ASSIGN_OR_RETURN(auto kernel, KernelOf(node, node.In(1)));
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, node.In(0), std::move(kernel)));
  return Convolved(node, Centred(node.In(0), node.In(2), 1), Centred(node.In(1), node.In(3), 0), Tensor(), node.Int("group", 1), window);
}

Result QLinearConv(Node& node) {
  const Tensor x = node.In(0), weight = node.In(3);
  KILN_ASSIGN_OR_RETURN(auto kernel, KernelOf(node, weight));
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, x, std::move(kernel)));
  KILN_ASSIGN_OR_RETURN(const Tensor sum, Convolved(node, Centred(x, node.In(2), 1), Centred(weight, node.In(5), 0), node.In(8), node.Int("group", 1), window));
  Tensor scale = node.In(4).rank() == 1 && node.In(4).size(0) != 1 ? Along(node.In(4), 1, x.rank()) : Reshape(node.In(4), Sizes());
  scale = Reshape(node.In(1), Sizes()) * scale / Reshape(node.In(6), Sizes());
  const Tensor zero = Cast(Reshape(node.In(7), Sizes()), v1::FLOAT32);
  return Saturated(RoundEven(Cast(sum, v1::FLOAT32) * scale) + zero, node.In(7).dtype());
}

constexpr OpRow kRows[] = {
    {"Conv", 1, Conv, 2, 3},
    {"ConvTranspose", 1, ConvTranspose, 2, 3},
    {"ConvInteger", 10, ConvInteger, 2, 4},
    {"QLinearConv", 10, QLinearConv, 8, 9},
};

}  // namespace

OpRows ConvOps() { return kRows; }

}  // namespace kiln::onnx
