// The movement functions that are made from tinyspec's movement ops.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/cpp/movement.h"

namespace kiln::client {
namespace {

// Of an axis, from 0; a number may count from the end, and is clipped.
Size Bound(Size bound, const Size& size) {
  if (bound.number() && *bound.number() < 0) bound = bound + size;
  if (!bound.number()) return bound;
  return *bound.number() < 0 ? Size(0) : *bound.number() >= size.greatest() ? size : bound;
}

AxisRanges Whole(const Sizes& shape) {
  AxisRanges ranges;
  for (const Size& size : shape) ranges.push_back({0, size});
  return ranges;
}

}  // namespace

Tensor BroadcastTo(Tensor x, const Sizes& shape) {
  if (!x.valid()) return x;
  const Sizes& from = x.sizes();
  if (shape.size() < from.size()) {
    return x.graph()->Fail(v1::SHAPE_MISMATCH, "BroadcastTo",
                           absl::StrCat(ShapeText(from), " to the lower rank of ", ShapeText(shape)));
  }
  Sizes padded(shape.size() - from.size(), 1);
  padded.insert(padded.end(), from.begin(), from.end());
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
Tensor Slice(Tensor x, int64_t axis, Size begin, Size end, int64_t step) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "Slice", axis, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  if (step < 1) return x.graph()->Fail(v1::BAD_ARGUMENT, "Slice", absl::StrCat("a step of ", step, "; Flip goes back"));
  const Size size = x.sizes()[place];
  begin = Bound(begin, size);
  end = Bound(end, size);
  if (const auto from = begin.number(), to = end.number(); from && to) end = std::max(*from, *to);
  AxisRanges ranges = Whole(x.sizes());
  ranges[place] = {begin, end};
  x = Shrink(x, ranges);
  if (step == 1 || end == begin) return x;

  if (!x.valid()) return x;
  const int64_t length = CheckNumber("Slice", x, place);
  if (length < 0) return x.graph()->Fail(absl::OkStatus());
  const int64_t count = (length - 1) / step + 1;
  AxisRanges padding(x.rank(), {0, 0});
  padding[place] = {0, std::max<int64_t>(0, count * step - length)};
  Sizes split = x.sizes();
  split[place] = count;
  const Sizes result = split;
  split.insert(split.begin() + place + 1, step);
  AxisRanges column = Whole(split);
  column[place + 1] = {0, 1};
  return Reshape(Shrink(Reshape(Pad(x, padding), split), column), result);
}

Tensor Squeeze(Tensor x, int64_t axis) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "Squeeze", axis, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  Sizes shape = x.sizes();
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
  Sizes shape = x.sizes();
  shape.insert(shape.begin() + place, 1);
  return Reshape(x, std::move(shape));
}

Tensor Flatten(Tensor x, int64_t first) {
  if (!x.valid()) return x;
  const int64_t place = x.rank() == 0 ? 0 : CheckAxis(*x.graph(), "Flatten", first, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  Sizes shape(x.sizes().begin(), x.sizes().begin() + place);
  shape.push_back(Sizes(x.sizes().begin() + place, x.sizes().end()).Count());
  return Reshape(x, std::move(shape));
}

// Each axis n becomes (count, n) by stretching a new axis of size 1.
Tensor Repeat(Tensor x, const std::vector<int64_t>& counts) {
  if (!x.valid()) return x;
  if (counts.size() != x.sizes().size() || std::any_of(counts.begin(), counts.end(), [](int64_t n) { return n < 0; })) {
    return x.graph()->Fail(v1::BAD_ARGUMENT, "Repeat", "one count an axis, none negative");
  }
  Sizes split, stretched, joined;
  for (size_t axis = 0; axis < counts.size(); ++axis) {
    const Size& size = x.sizes()[axis];
    split.insert(split.end(), {1, size});
    stretched.insert(stretched.end(), {counts[axis], size});
  }
  const Tensor tiled = Expand(Reshape(x, split), stretched);
  if (!tiled.valid()) return tiled;
  for (size_t axis = 0; axis < counts.size(); ++axis) joined.push_back(counts[axis] * x.sizes()[axis]);
  return Reshape(tiled, joined);
}

Tensor IndexSelect(Tensor x, int64_t axis, Tensor ids) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "IndexSelect", axis, x.rank());
  if (place < 0 || !ids.valid()) return x.graph()->Fail(absl::OkStatus());
  if (ids.rank() != 1) {
    return x.graph()->Fail(v1::SHAPE_MISMATCH, "IndexSelect",
                           absl::StrCat("the ids must be a vector, not ", ShapeText(ids.sizes())));
  }
  std::vector<int64_t> order(x.rank()), back(x.rank());
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + place, order.begin() + place + 1);
  for (size_t i = 0; i < order.size(); ++i) back[order[i]] = static_cast<int64_t>(i);
  return Permute(Index(Permute(x, order), {ids}), back);
}

}  // namespace kiln::client
