// Convolution and pooling of images: (batch, channels, height, width).
#ifndef KILN_CLIENT_CPP_CONV_H_
#define KILN_CLIENT_CPP_CONV_H_

#include <array>
#include <cstdint>

#include "client/cpp/graph.h"

namespace kiln::client {

// (height, width)
using Size2 = std::array<int64_t, 2>;

struct ConvOptions {
  Size2 stride = {1, 1};
  // Zeros added on both sides.
  Size2 padding = {0, 0};
  Size2 dilation = {1, 1};
  int64_t groups = 1;
};

struct PoolOptions {
  Size2 kernel = {2, 2};
  // {0, 0} means: the kernel's size.
  Size2 stride = {0, 0};
  Size2 padding = {0, 0};
};

// weight: (out channels, in channels / groups, kernel height, kernel width);
// bias: (out channels), or none.
Tensor Conv2d(Tensor x, Tensor weight, Tensor bias = Tensor(), const ConvOptions& options = {});

// Every window of an image: (batch, channels, out height, out width, kernel
// height, kernel width).
Tensor Patches(Tensor x, Size2 kernel, const ConvOptions& options = {});

Tensor MaxPool2d(Tensor x, const PoolOptions& options = {});
// The mean of each window; padding counts as zeros.
Tensor AvgPool2d(Tensor x, const PoolOptions& options = {});

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_CONV_H_
