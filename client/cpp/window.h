// Sliding windows as pure movement: what convolution, pooling and prefix sums are
// made of.
#ifndef KILN_CLIENT_CPP_WINDOW_H_
#define KILN_CLIENT_CPP_WINDOW_H_

#include <cstdint>

#include "client/cpp/graph.h"

namespace kiln::client {

struct WindowOptions {
  int64_t size = 1;
  // From one window's beginning to the next one's.
  int64_t stride = 1;
  // From one element of a window to its next.
  int64_t dilation = 1;
};

// The windows of one axis: the axis becomes the number of windows that fit, and a
// new last axis of `size` holds each window's elements.
Tensor SlidingWindow(Tensor x, int64_t axis, const WindowOptions& options);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_WINDOW_H_
