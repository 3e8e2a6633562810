// Windows over the spatial axes of (batch, channels, d1, d2, …): what convolution and pooling share.
#ifndef KILN_MODELS_ONNX_OPS_SPATIAL_H_
#define KILN_MODELS_ONNX_OPS_SPATIAL_H_

#include <cstdint>
#include <vector>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {

// One number for each spatial axis.
struct Window {
  std::vector<int64_t> kernel, stride, dilation, before, after;
  // Added after `after` for ceil_mode alone: no part of the input, not even as padding.
  std::vector<int64_t> beyond;
  // How many windows there are.
  Shape windows;
};

// From the attributes kernel_shape (or `kernel` where it is not there), strides, dilations, pads,
// auto_pad and ceil_mode. Refused or bad where they fit neither each other nor x.
absl::StatusOr<Window> WindowOf(Node& node, Tensor x, std::vector<int64_t> kernel = {});

// x with `fill` around it: what the windows slide over.
Tensor Padded(Tensor x, const Window& window, client::Scalar fill);
// stride - 1 zeros between neighbours along an axis whose size is a number, at least 1.
Tensor Apart(Tensor x, int64_t axis, int64_t stride);
// Of a padded x: (batch, channels, windows…, kernel…).
Tensor WindowsOf(Tensor padded, const Window& window);

struct SumOptions {
  // What factors are widened to, last of all, so that narrow ones stay what they are in memory; else as they are.
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  // What is around x.
  client::Scalar fill = 0;
};
// The products of windows and filters, summed: weight (out, in / groups, kernel…).
absl::StatusOr<Tensor> SumOfWindows(Node& node, Tensor x, Tensor weight, int64_t groups, const Window& window,
                                    const SumOptions& options);

// The same in x's dtype, narrow floats summed as wide ones; plus bias, (out) or invalid.
absl::StatusOr<Tensor> Convolved(Node& node, Tensor x, Tensor weight, Tensor bias, int64_t groups,
                                 const Window& window);

// AveragePool of x, by the node's attributes.
absl::StatusOr<Tensor> Averaged(Node& node, Tensor x);

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_OPS_SPATIAL_H_
