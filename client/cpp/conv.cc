#include "client/cpp/conv.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "client/cpp/elementwise.h"
#include "client/cpp/movement.h"
#include "client/cpp/reduce.h"
#include "client/cpp/window.h"

namespace kiln::client {
namespace {

bool CheckImage(const char* function, Tensor x) {
  if (!x.valid() || x.rank() == 4) return x.valid();
  x.graph()->Fail(v1::SHAPE_MISMATCH, function,
                  absl::StrCat("an image is (batch, channels, height, width), not ", ShapeText(x.sizes())));
  return false;
}

// The value that never is the greatest.
Scalar Least(v1::DType dtype) {
  if (IsFloat(dtype)) return -std::numeric_limits<double>::infinity();
  if (IsSigned(dtype)) return -static_cast<int64_t>(GreatestInteger(dtype)) - 1;
  return 0;
}

Tensor PadImage(Tensor x, Size2 padding, Scalar fill) {
  return Pad(x, {{0, 0}, {0, 0}, {padding[0], padding[0]}, {padding[1], padding[1]}}, fill);
}

Tensor Windows(Tensor x, Size2 kernel, Size2 stride, Size2 dilation) {
  const Tensor rows = SlidingWindow(x, 2, {kernel[0], stride[0], dilation[0]});
  return SlidingWindow(rows, 3, {kernel[1], stride[1], dilation[1]});
}

Tensor PoolWindows(Tensor x, const PoolOptions& options, Scalar fill) {
  const Size2 stride = options.stride == Size2{0, 0} ? options.kernel : options.stride;
  return Windows(PadImage(x, options.padding, fill), options.kernel, stride, {1, 1});
}

}  // namespace

Tensor Patches(Tensor x, Size2 kernel, const ConvOptions& options) {
  if (!CheckImage("Patches", x)) return x.valid() ? x.graph()->Fail(absl::OkStatus()) : x;
  return Windows(PadImage(x, options.padding, 0), kernel, options.stride, options.dilation);
}

// Each output is the sum of a patch times a filter:
//   patches (n, g, 1, oh, ow, c/g, kh, kw) * weight (1, g, o/g, 1, 1, c/g, kh, kw)
// over the last three axes.
Tensor Conv2d(Tensor x, Tensor weight, Tensor bias, const ConvOptions& options) {
  if (!weight.valid() || !CheckImage("Conv2d", x)) {
    return x.graph() != nullptr ? x.graph()->Fail(absl::OkStatus()) : x;
  }
  const int64_t groups = options.groups, in = x.dim(1), out = weight.dim(0);
  if (weight.rank() != 4 || groups < 1 || in % groups != 0 || out % groups != 0 || weight.dim(1) != in / groups) {
    return x.graph()->Fail(
        v1::SHAPE_MISMATCH, "Conv2d",
        absl::StrCat("an image of ", ShapeText(x.sizes()), " and a weight of ", ShapeText(weight.sizes()),
                     " do not fit ", groups, " groups: a weight is (out, in / groups, height, width)"));
  }
  const int64_t kh = weight.dim(2), kw = weight.dim(3), each = in / groups;
  const Tensor patches = Patches(x, {kh, kw}, options);
  if (!patches.valid()) return patches;
  const Size n = patches.size(0), oh = patches.size(2), ow = patches.size(3);
  const Tensor left = Reshape(Permute(Reshape(patches, {n, groups, each, oh, ow, kh, kw}), {0, 1, 3, 4, 2, 5, 6}),
                              {n, groups, 1, oh, ow, each, kh, kw});
  const Tensor right = Reshape(weight, {1, groups, out / groups, 1, 1, each, kh, kw});
  const Tensor product = Reshape(Sum(left * right, {-3, -2, -1}), {n, out, oh, ow});
  return bias.graph() != nullptr ? product + Reshape(bias, {1, out, 1, 1}) : product;
}

Tensor MaxPool2d(Tensor x, const PoolOptions& options) {
  if (!CheckImage("MaxPool2d", x)) return x.valid() ? x.graph()->Fail(absl::OkStatus()) : x;
  return Max(PoolWindows(x, options, Least(x.dtype())), {-2, -1});
}

Tensor AvgPool2d(Tensor x, const PoolOptions& options) {
  if (!CheckImage("AvgPool2d", x)) return x.valid() ? x.graph()->Fail(absl::OkStatus()) : x;
  return Mean(PoolWindows(x, options, 0), {-2, -1});
}

}  // namespace kiln::client
