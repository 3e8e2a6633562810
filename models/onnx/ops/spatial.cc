// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/spatial.h"

namespace kiln::onnx {

using namespace client;  // NOLINT: the builder's functions are this room's words

namespace {

// No attribute of a window is more.
constexpr int64_t kMost = int64_t{1} << 24;

bool AllWithin(const std::vector<int64_t>& list, int64_t least) {
  return std::all_of(list.begin(), list.end(), [&](int64_t one) { return one >= least && one <= kMost; });
}

}  // namespace

absl::StatusOr<Window> WindowOf(Node& node, Tensor x, std::vector<int64_t> kernel) {
  Window window;
  window.kernel = node.Ints("kernel_shape", std::move(kernel));
  const size_t axes = window.kernel.size();
  if (static_cast<int64_t>(axes) + 2 != x.rank()) {
    return node.Bad(absl::StrCat("a kernel of ", ShapeText(window.kernel), " over ", ShapeText(x.sizes())));
  }
  window.stride = node.Ints("strides", std::vector<int64_t>(axes, 1));
  window.dilation = node.Ints("dilations", std::vector<int64_t>(axes, 1));
  const std::vector<int64_t> pads = node.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  if (window.stride.size() != axes || window.dilation.size() != axes || pads.size() != 2 * axes) {
    return node.Bad("strides, dilations or pads are not one an axis");
  }
  if (!AllWithin(window.kernel, 1) || !AllWithin(window.stride, 1) || !AllWithin(window.dilation, 1) ||
      !AllWithin(pads, 0)) {
    return node.Bad("kernel, strides and dilations are from 1, pads from 0, and none is above 2^24");
  }
  const std::string automatic = node.Text("auto_pad", "NOTSET");
  const bool ceil = node.Int("ceil_mode") != 0;
  for (size_t i = 0; i < axes; ++i) {
    KILN_ASSIGN_OR_RETURN(const int64_t size, node.Dim(x, static_cast<int64_t>(i) + 2));
    const int64_t reach = (window.kernel[i] - 1) * window.dilation[i] + 1, stride = window.stride[i];
    int64_t before = pads[i], after = pads[i + axes];
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      const int64_t total = std::max<int64_t>(0, ((size + stride - 1) / stride - 1) * stride + reach - size);
      before = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      after = total - before;
    } else if (automatic == "VALID") {
      before = after = 0;
    } else if (automatic != "NOTSET") {
      return node.Bad("auto_pad is NOTSET, SAME_UPPER, SAME_LOWER or VALID");
    }
    const int64_t room = size + before + after - reach;
    if (room < 0)
      return node.Bad(absl::StrCat("a window of ", reach, " is longer than axis ", i + 2, " of ", ShapeText(x.sizes()),
                                   " with its pads"));
    int64_t windows = (ceil ? (room + stride - 1) / stride : room / stride) + 1;
    // The last one must begin in the input or the padding before it.
    if (ceil && (windows - 1) * stride >= size + before) --windows;
    window.before.push_back(before);
    window.after.push_back(after);
    window.beyond.push_back(std::max<int64_t>(0, (windows - 1) * stride + reach - size - before - after));
    window.windows.push_back(windows);
  }
  return window;
}

Tensor Padded(Tensor x, const Window& window, Scalar fill) {
  AxisRanges padding(2, {0, 0});
  for (size_t i = 0; i < window.kernel.size(); ++i)
    padding.push_back({window.before[i], window.after[i] + window.beyond[i]});
  return Pad(x, padding, fill);
}

Tensor Apart(Tensor x, int64_t axis, int64_t stride) {
  const auto size = x.size(axis).number();
  if (!x.valid() || stride == 1 || !size || *size < 1) return x;
  Sizes apart = x.sizes(), joined = x.sizes();
  apart.insert(apart.begin() + axis + 1, 1);
  AxisRanges gap(apart.size(), {0, 0});
  gap[axis + 1].second = stride - 1;
  joined[axis] = *size * stride;
  return Part(Reshape(Pad(Reshape(x, apart), gap), joined), axis, 0, (*size - 1) * stride + 1);
}

Tensor WindowsOf(Tensor padded, const Window& window) {
  for (size_t i = 0; i < window.kernel.size(); ++i) {
    padded =
        SlidingWindow(padded, static_cast<int64_t>(i) + 2, {window.kernel[i], window.stride[i], window.dilation[i]});
  }
  return padded;
}

// windows (n, g, 1, out…, in/g, kernel…) times weight (1, g, out/g, 1…, in/g, kernel…), summed over the last.
absl::StatusOr<Tensor> SumOfWindows(Node& node, Tensor x, Tensor weight, int64_t groups, const Window& window,
                                    const SumOptions& options) {
  KILN_ASSIGN_OR_RETURN(const int64_t in, node.Dim(x, 1));
  KILN_ASSIGN_OR_RETURN(const Shape filter, node.Dims(weight));
  const auto axes = static_cast<int64_t>(window.kernel.size());
  if (groups < 1 || in % groups != 0 || filter[0] % groups != 0 || filter[1] != in / groups ||
      !std::equal(window.kernel.begin(), window.kernel.end(), filter.begin() + 2, filter.end())) {
    return node.Bad(absl::StrCat("an input of ", ShapeText(x.sizes()), " and a weight of ", ShapeText(filter),
                                 " do not fit ", groups, " groups and a kernel of ", ShapeText(window.kernel)));
  }
  const int64_t out = filter[0], each = in / groups;
  const Tensor all = WindowsOf(Padded(x, window, options.fill), window);
  Sizes split = {x.size(0), groups, each}, left = {x.size(0), groups, 1}, right = {1, groups, out / groups},
        result = {x.size(0), out};
  std::vector<int64_t> order = {0, 1};
  for (int64_t i = 0; i < axes; ++i) {
    split.push_back(window.windows[i]);
    left.push_back(window.windows[i]);
    right.push_back(1);
    result.push_back(window.windows[i]);
    order.push_back(3 + i);
  }
  left.push_back(each);
  right.push_back(each);
  order.push_back(2);
  std::vector<int64_t> summed = {3 + axes};
  for (int64_t i = 0; i < axes; ++i) {
    split.push_back(window.kernel[i]);
    left.push_back(window.kernel[i]);
    right.push_back(window.kernel[i]);
    order.push_back(3 + axes + i);
    summed.push_back(4 + axes + i);
  }
  Tensor patches = Reshape(Permute(Reshape(all, split), order), left), filters = Reshape(weight, right);
  if (options.dtype != v1::DTYPE_UNSPECIFIED) {
    patches = Cast(patches, options.dtype);
    filters = Cast(filters, options.dtype);
  }
  return Reshape(Sum(patches * filters, summed), result);
}

absl::StatusOr<Tensor> Convolved(Node& node, Tensor x, Tensor weight, Tensor bias, int64_t groups,
                                 const Window& window) {
  KILN_ASSIGN_OR_RETURN(const Tensor sum, SumOfWindows(node, Widened(x), Widened(weight), groups, window, {}));
  const Tensor product = Cast(sum, x.dtype());
  return bias.valid() ? product + Along(bias, 1, x.rank()) : product;
}

}  // namespace kiln::onnx
