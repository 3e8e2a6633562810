// Moving elements: nothing is computed, only where each element is found.
// Axes may be negative: they count from the last. Sizes may depend on variables (size.h):
// what no value of theirs could make fit is refused here, what only some do by each call.
#ifndef KILN_CLIENT_CPP_MOVEMENT_H_
#define KILN_CLIENT_CPP_MOVEMENT_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "client/cpp/graph.h"

namespace kiln::client {

// One (before, after) or (begin, end) an axis.
using AxisRanges = std::vector<std::pair<Size, Size>>;

// -- tinyspec's ops
// Row-major; one axis may be -1: whatever is left.
Tensor Reshape(Tensor x, Sizes shape);
Tensor Permute(Tensor x, const std::vector<int64_t>& axes);
// Stretches axes of size 1; -1 keeps an axis. The rank stays.
Tensor Expand(Tensor x, Sizes shape);
// Adds `before` and `after` elements of value `fill` to every axis.
Tensor Pad(Tensor x, const AxisRanges& padding, Scalar fill = 0);
// Keeps [begin, end) of every axis.
Tensor Shrink(Tensor x, const AxisRanges& ranges);
Tensor Flip(Tensor x, const std::vector<int64_t>& axes);
// Indexes the leading axes. An index of shape () drops its axis, one of (k,)
// makes it k. An index out of range reads 0.
Tensor Index(Tensor x, const std::vector<Tensor>& indices);
// Joins equal shapes along a new axis.
Tensor Stack(const std::vector<Tensor>& tensors, int64_t axis = 0);

// -- Made from them
Tensor BroadcastTo(Tensor x, const Sizes& shape);
Tensor Transpose(Tensor x, int64_t axis_a = -2, int64_t axis_b = -1);
// x[begin:end:step] along one axis. Bounds count from the end if negative and are
// clipped; step is at least 1. Where a bound or the axis depends on variables, nothing is
// clipped but a number beyond the axis's greatest size, and the step is 1.
Tensor Slice(Tensor x, int64_t axis, Size begin, Size end, int64_t step = 1);
Tensor Squeeze(Tensor x, int64_t axis);
Tensor Unsqueeze(Tensor x, int64_t axis);
// Joins the axes from `first` on into one.
Tensor Flatten(Tensor x, int64_t first = 0);
// Joins along an axis there is. Pads with zeros and adds, so -0 becomes 0.
Tensor Concat(const std::vector<Tensor>& tensors, int64_t axis);
Tensor Repeat(Tensor x, const std::vector<int64_t>& counts);
// Rows of an axis, chosen by a rank-1 tensor of integers.
Tensor IndexSelect(Tensor x, int64_t axis, Tensor ids);

// `axis` as 0 <= axis < rank; keeps an error in the graph and returns -1 if there
// is none such.
int64_t CheckAxis(Graph& graph, const char* function, int64_t axis, int64_t rank);
// The size of an axis there is, if it is a number; else keeps an error and returns -1.
int64_t CheckNumber(const char* function, Tensor x, int64_t axis);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_MOVEMENT_H_
