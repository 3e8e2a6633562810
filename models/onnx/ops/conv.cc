// Convolutions.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/byte_products.h"
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
  const Tensor x = node.In(0), weight = node.In(1), bias = node.In(2);
  KILN_ASSIGN_OR_RETURN(auto kernel, KernelOf(node, weight));
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, x, std::move(kernel)));
  KILN_ASSIGN_OR_RETURN(const Shape filter, node.Dims(weight));
  const int64_t groups = node.Int("group", 1);
  const auto terms = ElementCount(Shape(filter.begin() + 1, filter.end()));
  const auto scaled = terms ? ScaledFactorsOf(node, 0, *terms, IsPadded(window)) : std::nullopt;
  if (!scaled) return Convolved(node, x, weight, bias, groups, window);
  KILN_ASSIGN_OR_RETURN(const Tensor sum, ConvolvedBytes(node, scaled->factors, groups, window));
  const Tensor scale = scaled->scale.rank() == 0 ? scaled->scale : Along(scaled->scale, 1, x.rank());
  const Tensor product = Cast(sum, v1::FLOAT32) * scale;
  return bias.valid() ? product + Along(bias, 1, x.rank()) : product;
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
  if (groups < 1 || in % groups != 0 || x.size(1) != in)
    return node.Bad(absl::StrCat("an input of ", ShapeText(x.sizes()), " and a weight of ", ShapeText(filter)));
  const std::string automatic = node.Text("auto_pad", "NOTSET");
  Window window{kernel, std::vector<int64_t>(axes, 1), dilation, {}, {}, none, {}};
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
      const int64_t half = total >> 1;  // toward minus infinity, for less than nothing may be cut
      pads[i] = automatic == "SAME_UPPER" ? half : total - half;
      pads[i + axes] = total - pads[i];
    }
    // Between the elements, then around them; what is negative is cut away.
    x = Apart(x, axis, stride[i]);
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

// By 8-bit factors where that is possible, else by what is left of them without their zero points.
absl::StatusOr<Tensor> IntegerSum(Node& node, Tensor x, Tensor zero, Tensor weight, Tensor weight_zero) {
  KILN_ASSIGN_OR_RETURN(auto kernel, KernelOf(node, weight));
  KILN_ASSIGN_OR_RETURN(const Window window, WindowOf(node, x, std::move(kernel)));
  const int64_t groups = node.Int("group", 1);
  const auto factors = ByteFactorsOf(node, x, zero, weight, weight_zero, IsPadded(window));
  if (factors) return ConvolvedBytes(node, *factors, groups, window);
  return Convolved(node, Centred(x, zero, 1), Centred(weight, weight_zero, 0), Tensor(), groups, window);
}

Result ConvInteger(Node& node) { return IntegerSum(node, node.In(0), node.In(2), node.In(1), node.In(3)); }

Result QLinearConv(Node& node) {
  const Tensor x = node.In(0), bias = node.In(8);
  KILN_ASSIGN_OR_RETURN(Tensor sum, IntegerSum(node, x, node.In(2), node.In(3), node.In(5)));
  if (bias.valid()) sum = sum + Along(bias, 1, x.rank());
  Tensor scale =
      node.In(4).rank() == 1 && node.In(4).size(0) != 1 ? Along(node.In(4), 1, x.rank()) : Reshape(node.In(4), Sizes());
  scale = Reshape(node.In(1), Sizes()) * scale / Reshape(node.In(6), Sizes());
  const Tensor zero = Cast(Reshape(node.In(7), Sizes()), v1::FLOAT32);
  return SaturatedWhole(RoundEven(Cast(sum, v1::FLOAT32) * scale) + zero, node.In(7).dtype());
}

// Each element of a window is added to where it was taken from.
Result Col2Im(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> image, node.Integers(1));
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> kernel, node.Integers(2));
  const size_t axes = image.size();
  const std::vector<int64_t> ones(axes, 1), stride = node.Ints("strides", ones),
                                            dilation = node.Ints("dilations", ones);
  const std::vector<int64_t> pads = node.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  if (x.rank() != 3 || kernel.size() != axes || stride.size() != axes || dilation.size() != axes ||
      pads.size() != 2 * axes) {
    return node.Bad("takes (batch, channels * kernel, windows), and one number an axis");
  }
  KILN_ASSIGN_OR_RETURN(const int64_t rows, node.Dim(x, 1));
  int64_t count = 1;
  Shape windows;
  for (size_t i = 0; i < axes; ++i) {
    constexpr int64_t kMost = int64_t{1} << 24;
    for (const int64_t one : {image[i], kernel[i], stride[i], dilation[i]}) {
      if (one < 1 || one > kMost) return node.Bad("an attribute is out of range");
    }
    if (pads[i] < 0 || pads[i] > kMost || pads[i + axes] < 0 || pads[i + axes] > kMost)
      return node.Bad("pads are out of range");
    count *= kernel[i];
    if (count > 4096) return node.Refuse("a kernel of more than 4096 elements");
    const int64_t room = image[i] + pads[i] + pads[i + axes] - dilation[i] * (kernel[i] - 1) - 1;
    if (room < 0) return node.Bad("the window is longer than the image");
    windows.push_back(room / stride[i] + 1);
  }
  if (rows % count != 0) return node.Bad("the rows are not whole kernels");
  Sizes split = {x.size(0), rows / count, count};
  split.insert(split.end(), windows.begin(), windows.end());
  const Tensor all = Reshape(x, split);
  Tensor sum;
  for (int64_t k = 0; k < count; ++k) {
    Tensor part = Squeeze(Part(all, 2, k, k + 1), 2);
    AxisRanges around(2, {0, 0}), kept = {{0, x.size(0)}, {0, rows / count}};
    int64_t rest = k, inner = count;
    for (size_t i = 0; i < axes; ++i) {
      inner /= kernel[i];
      const int64_t offset = rest / inner * dilation[i], reach = (windows[i] - 1) * stride[i] + 1;
      rest %= inner;
      part = Apart(part, static_cast<int64_t>(i) + 2, stride[i]);
      around.push_back({offset, image[i] + pads[i] + pads[i + axes] - reach - offset});
      kept.push_back({pads[i], pads[i] + image[i]});
    }
    part = client::Shrink(Pad(part, around), kept);
    sum = sum.valid() ? sum + part : part;
  }
  return sum;
}

// Over the sequence and what came before it, of which the end is the next state.
Result CausalConvWithState(Node& node) {
  const Tensor x = node.In(0), weight = node.In(1);
  if (x.rank() != 3 || weight.rank() != 3) return node.Bad("takes (batch, channels, length) and (channels, 1, kernel)");
  KILN_ASSIGN_OR_RETURN(const int64_t channels, node.Dim(x, 1));
  KILN_ASSIGN_OR_RETURN(const int64_t length, node.Dim(x, 2));
  KILN_ASSIGN_OR_RETURN(const int64_t kernel, node.Dim(weight, 2));
  if (kernel < 1) return node.Bad("a kernel of nothing");
  const Tensor before = node.Has(3) ? node.In(3) : node.graph().Zeros({x.size(0), channels, kernel - 1}, x.dtype());
  const Tensor padded = Joined({before, x}, 2);
  const Window window{{kernel}, {1}, {1}, {0}, {0}, {0}, {length}};
  KILN_ASSIGN_OR_RETURN(Tensor result, Convolved(node, padded, weight, node.In(2), channels, window));
  const std::string activation = node.Text("activation", "none");
  if (activation == "silu" || activation == "swish") {
    result = InWide(result, [](Tensor y) { return y * Sigmoid(y); });
  } else if (activation != "none") {
    return node.Bad("activation is none, silu or swish");
  }
  return std::vector<Tensor>{result, Part(padded, 2, length, length + kernel - 1)};
}

constexpr OpRow kRows[] = {
    {"Col2Im", 18, Col2Im, 3, 3},
    {"CausalConvWithState", 27, CausalConvWithState, 2, 4},
    {"Conv", 1, Conv, 2, 3},
    {"ConvTranspose", 1, ConvTranspose, 2, 3},
    {"ConvInteger", 10, ConvInteger, 2, 4},
    {"QLinearConv", 10, QLinearConv, 8, 9},
};

}  // namespace

OpRows ConvOps() { return kRows; }

}  // namespace kiln::onnx
