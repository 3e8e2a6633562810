// The movement functions that are made from tinyspec's movement ops.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/cpp/movement.h"

namespace kiln::client {

Tensor BroadcastTo(Tensor x, const Shape& shape) {
  if (!x.valid()) return x;
  if (shape.size() < x.shape().size()) {
    return x.graph()->Fail(v1::SHAPE_MISMATCH, "BroadcastTo",
                           absl::StrCat(ShapeText(x.shape()), " to the lower rank of ", ShapeText(shape)));
  }
  Shape padded(shape.size() - x.shape().size(), 1);
  padded.insert(padded.end(), x.shape().begin(), x.shape().end());
  return Expand(Reshape(x, std::move(padded)), shape);
}

Tensor Transpose(Tensor x, int64_t axis_a, int64_t axis_b) {
  if (!x.valid()) return x;
  const int64_t a = CheckAxis(*x.graph(), "Transpose", axis_a, x.rank());
  const int64_t b = CheckAxis(*x.graph(), "Transpose", axis_b, x.rank());
  if (a < 0 || b < 0) return x.graph()->Fail(absl::OkStatus());
  std::vector<int64_t> order(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[a], order[b]);
  return Permute(x, order);
}

// Every step-th element is the first column of a (count, step) matrix.
Tensor Slice(Tensor x, int64_t axis, int64_t begin, int64_t end, int64_t step) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "Slice", axis, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  if (step < 1) return x.graph()->Fail(v1::BAD_ARGUMENT, "Slice", absl::StrCat("a step of ", step, "; Flip goes back"));
  const int64_t size = x.shape()[place];
  begin = std::clamp<int64_t>(begin < 0 ? begin + size : begin, 0, size);
  end = std::clamp<int64_t>(end < 0 ? end + size : end, begin, size);
  AxisRanges ranges;
  for (const int64_t axis_size : x.shape()) ranges.push_back({0, axis_size});
  ranges[place] = {begin, end};
  x = Shrink(x, ranges);
  if (step == 1 || end == begin) return x;

  const int64_t count = (end - begin - 1) / step + 1;
  AxisRanges padding(x.rank(), {0, 0});
  padding[place] = {0, std::max<int64_t>(0, count * step - (end - begin))};
  Shape split = x.shape();
  split[place] = count;
  const Shape result = split;
  split.insert(split.begin() + place + 1, step);
  AxisRanges column;
  for (const int64_t axis_size : split) column.push_back({0, axis_size});
  column[place + 1] = {0, 1};
  return Reshape(Shrink(Reshape(Pad(x, padding), split), column), result);
}

Tensor Squeeze(Tensor x, int64_t axis) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "Squeeze", axis, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  Shape shape = x.shape();
  if (shape[place] != 1) {
    return x.graph()->Fail(v1::SHAPE_MISMATCH, "Squeeze",
                           absl::StrCat("axis ", axis, " of ", ShapeText(shape), " is not of size 1"));
  }
  shape.erase(shape.begin() + place);
  return Reshape(x, std::move(shape));
}

Tensor Unsqueeze(Tensor x, int64_t axis) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "Unsqueeze", axis, x.rank() + 1);
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  Shape shape = x.shape();
  shape.insert(shape.begin() + place, 1);
  return Reshape(x, std::move(shape));
}

Tensor Flatten(Tensor x, int64_t first) {
  if (!x.valid()) return x;
  const int64_t place = x.rank() == 0 ? 0 : CheckAxis(*x.graph(), "Flatten", first, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  Shape shape(x.shape().begin(), x.shape().begin() + place);
  shape.push_back(*ElementCount(Shape(x.shape().begin() + place, x.shape().end())));
  return Reshape(x, std::move(shape));
}

// Each axis n becomes (count, n) by stretching a new axis of size 1.
Tensor Repeat(Tensor x, const std::vector<int64_t>& counts) {
  if (!x.valid()) return x;
  if (counts.size() != x.shape().size() || std::any_of(counts.begin(), counts.end(), [](int64_t n) { return n < 0; })) {
    return x.graph()->Fail(v1::BAD_ARGUMENT, "Repeat", "one count an axis, none negative");
  }
  Shape split, stretched, joined;
  for (size_t axis = 0; axis < counts.size(); ++axis) {
    const int64_t size = x.shape()[axis];
    split.insert(split.end(), {1, size});
    stretched.insert(stretched.end(), {counts[axis], size});
  }
  const Tensor tiled = Expand(Reshape(x, split), stretched);
  if (!tiled.valid()) return tiled;
  for (size_t axis = 0; axis < counts.size(); ++axis) joined.push_back(counts[axis] * x.shape()[axis]);
  return Reshape(tiled, joined);
}

Tensor IndexSelect(Tensor x, int64_t axis, Tensor ids) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "IndexSelect", axis, x.rank());
  if (place < 0 || !ids.valid()) return x.graph()->Fail(absl::OkStatus());
  if (ids.rank() != 1) {
    return x.graph()->Fail(v1::SHAPE_MISMATCH, "IndexSelect",
                           absl::StrCat("the ids must be a vector, not ", ShapeText(ids.shape())));
  }
  std::vector<int64_t> order(x.rank()), back(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + place, order.begin() + place + 1);
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  return Permute(Index(Permute(x, order), {ids}), back);
}

}  // namespace kiln::client
