#include "client/cpp/window.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/cpp/movement.h"

namespace kiln::client {
namespace {

// Replaces axis `place` of a shape by `axes`.
Sizes Replace(Sizes shape, int64_t place, const Sizes& axes) {
  shape.erase(shape.begin() + place);
  shape.insert(shape.begin() + place, axes.begin(), axes.end());
  return shape;
}

// Keeps the first `count` elements of one axis.
Tensor Keep(Tensor x, int64_t place, int64_t count) {
  if (!x.valid()) return x;
  AxisRanges ranges;
  for (const Size& size : x.sizes()) ranges.push_back({0, size});
  ranges[place].second = count;
  return Shrink(x, ranges);
}

}  // namespace

// Lay the axis end to end many times and cut the tape into rows that are
// `dilation` longer than the axis: then each row begins `dilation` elements
// further along. Row k, column c holds element k * dilation + c, which for every
// window that fits is inside the axis. The windows are then every stride-th
// column.
Tensor SlidingWindow(Tensor x, int64_t axis, const WindowOptions& options) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "SlidingWindow", axis, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  const auto [size, stride, dilation] = options;
  if (size < 1 || stride < 1 || dilation < 1) {
    return x.graph()->Fail(v1::BAD_ARGUMENT, "SlidingWindow", "size, stride and dilation are at least 1");
  }
  int64_t reach = 0, length = CheckNumber("SlidingWindow", x, place);
  if (length < 0) return x.graph()->Fail(absl::OkStatus());
  if (__builtin_mul_overflow(size - 1, dilation, &reach) || reach >= length) {
    return x.graph()->Fail(v1::SHAPE_MISMATCH, "SlidingWindow",
                           absl::StrCat("a window of ", size, " elements, ", dilation, " apart, is longer than axis ",
                                        place, " of ", ShapeText(x.sizes())));
  }
  const int64_t windows = (length - reach - 1) / stride + 1;

  // The every-stride-th-column step wants whole strides; the elements added here
  // are never part of a window.
  AxisRanges padding(x.rank(), {0, 0});
  const int64_t more = std::max<int64_t>(0, windows * stride - length);
  padding[place].second = more;
  x = Pad(x, padding);
  if (!x.valid()) return x;
  const Sizes around = x.sizes();
  length += more;

  const int64_t row = length + dilation;
  if (!ElementCount({size + 1, row}).has_value()) {
    return x.graph()->Fail(v1::SIZE_OVERFLOW, "SlidingWindow", absl::StrCat(size, " rows of ", row, " elements"));
  }
  std::vector<int64_t> counts(x.rank(), 1);
  counts[place] = (size * row + length - 1) / length;
  Tensor rows = Keep(Repeat(x, counts), place, size * row);
  rows = Keep(Reshape(rows, Replace(around, place, {size, row})), place + 1, windows * stride);
  rows = Keep(Reshape(rows, Replace(around, place, {size, windows, stride})), place + 2, 1);
  rows = Reshape(rows, Replace(around, place, {size, windows}));

  std::vector<int64_t> order(x.rank() + 1);
  std::iota(order.begin(), order.end(), 0);
  order.erase(order.begin() + place);
  order.push_back(place);
  return Permute(rows, order);
}

}  // namespace kiln::client
