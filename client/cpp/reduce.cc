#include "client/cpp/reduce.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "client/cpp/elementwise.h"
#include "client/cpp/movement.h"
#include "client/cpp/window.h"

namespace kiln::client {
namespace {

// The axes in ascending order, each once; none if one of them is wrong.
std::optional<std::vector<int64_t>> Resolve(const char* function, Tensor x, const Axes& axes) {
  std::vector<int64_t> result = axes.list();
  if (result.empty()) {
    result.resize(x.rank());
    std::iota(result.begin(), result.end(), 0);
  }
  for (int64_t& axis : result) {
    axis = CheckAxis(*x.graph(), function, axis, x.rank());
    if (axis < 0) return std::nullopt;
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// Without keepdim, the axes of size 1 that REDUCE leaves are reshaped away.
Tensor Reduce(const char* function, v1::Op op, Tensor x, const Axes& axes, bool keepdim) {
  if (!x.valid()) return x;
  const auto resolved = Resolve(function, x, axes);
  if (!resolved.has_value()) return x.graph()->Fail(absl::OkStatus());
  Sizes kept = x.sizes(), rest;
  v1::UOp uop;
  uop.set_op(v1::REDUCE);
  uop.add_src(x.node());
  uop.mutable_reduce()->set_op(op);
  for (const int64_t axis : *resolved) {
    uop.mutable_reduce()->add_axis(axis);
    kept[axis] = 1;
  }
  for (int64_t axis = 0; axis < x.rank(); ++axis) {
    if (!std::binary_search(resolved->begin(), resolved->end(), axis)) rest.push_back(x.sizes()[axis]);
  }
  const Tensor reduced = resolved->empty() ? x : x.graph()->Node(std::move(uop), x.dtype(), std::move(kept));
  return keepdim ? reduced : Reshape(reduced, std::move(rest));
}

// Turns the order of values round: the greatest becomes the least.
Tensor Mirror(Tensor x) {
  if (!x.valid()) return x;
  if (IsFloat(x.dtype())) return -x;
  if (x.dtype() == v1::BOOL) return x ^ true;
  return IsSigned(x.dtype()) ? x ^ -1 : x ^ GreatestInteger(x.dtype());
}

// How many elements each result is made of.
Size ReducedCount(Tensor x, const std::vector<int64_t>& axes) {
  Size count = 1;
  for (const int64_t axis : axes) count = count * x.sizes()[axis];
  return count;
}

// The sum over a count. One that depends on variables is no constant to multiply with; in
// float32 at least, for narrower floats hold few integers.
Tensor Over(Tensor sum, const Size& count) {
  if (!sum.valid()) return sum;
  if (count.number()) return sum * (1.0 / static_cast<double>(*count.number()));
  if (!IsFloat(sum.dtype())) {
    return sum.graph()->Fail(v1::DTYPE_MISMATCH, "Mean", absl::StrCat("takes floats, not ", DTypeName(sum.dtype())));
  }
  const v1::DType wide = DTypeSize(sum.dtype()) < 4 ? v1::FLOAT32 : sum.dtype();
  return Cast(Cast(sum, wide) / sum.graph()->Number(count, wide), sum.dtype());
}

bool RequireBool(const char* function, Tensor x) {
  if (!x.valid() || x.dtype() == v1::BOOL) return x.valid();
  x.graph()->Fail(v1::DTYPE_MISMATCH, function, absl::StrCat("takes bool, not ", DTypeName(x.dtype())));
  return false;
}

}  // namespace

Tensor Sum(Tensor x, const Axes& axes, bool keepdim) {
  return Reduce("Sum", v1::ADD, x.dtype() == v1::BOOL ? Cast(x, v1::INT32) : x, axes, keepdim);
}
Tensor Prod(Tensor x, const Axes& axes, bool keepdim) { return Reduce("Prod", v1::MUL, x, axes, keepdim); }
Tensor Max(Tensor x, const Axes& axes, bool keepdim) { return Reduce("Max", v1::MAX, x, axes, keepdim); }
Tensor Min(Tensor x, const Axes& axes, bool keepdim) {
  return Mirror(Reduce("Min", v1::MAX, Mirror(x), axes, keepdim));
}

Tensor Any(Tensor x, const Axes& axes, bool keepdim) {
  if (!RequireBool("Any", x)) return x.valid() ? x.graph()->Fail(absl::OkStatus()) : x;
  return Reduce("Any", v1::MAX, x, axes, keepdim);
}

Tensor All(Tensor x, const Axes& axes, bool keepdim) {
  if (!RequireBool("All", x)) return x.valid() ? x.graph()->Fail(absl::OkStatus()) : x;
  return Reduce("All", v1::MUL, x, axes, keepdim);
}

Tensor Mean(Tensor x, const Axes& axes, bool keepdim) {
  if (!x.valid()) return x;
  const auto resolved = Resolve("Mean", x, axes);
  if (!resolved.has_value()) return x.graph()->Fail(absl::OkStatus());
  return Over(Reduce("Mean", v1::ADD, x, axes, keepdim), ReducedCount(x, *resolved));
}

Tensor Var(Tensor x, const Axes& axes, bool keepdim, int64_t correction) {
  if (!x.valid()) return x;
  const auto resolved = Resolve("Var", x, axes);
  if (!resolved.has_value()) return x.graph()->Fail(absl::OkStatus());
  return Over(Sum(Square(x - Mean(x, axes, true)), axes, keepdim), ReducedCount(x, *resolved) - correction);
}

// The greatest element's place, counted from the end, is the greatest of all such
// places: so the first of several wins.
Tensor ArgMax(Tensor x, int64_t axis, bool keepdim) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "ArgMax", axis, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  const Size size = x.sizes()[place];
  Sizes along(x.rank(), 1);
  along[place] = size;
  const Tensor count = x.graph()->Number(size);
  const Tensor from_end = Reshape(count - x.graph()->Arange(size), along);
  Tensor greatest = x == Max(x, place, true);
  if (IsFloat(x.dtype())) greatest = greatest | (x != x);
  return count - Max(Where(greatest, from_end, 0), place, keepdim);
}

Tensor ArgMin(Tensor x, int64_t axis, bool keepdim) { return ArgMax(Mirror(x), axis, keepdim); }

Tensor CumSum(Tensor x, int64_t axis) {
  if (!x.valid()) return x;
  const int64_t place = CheckAxis(*x.graph(), "CumSum", axis, x.rank());
  if (place < 0) return x.graph()->Fail(absl::OkStatus());
  const int64_t size = CheckNumber("CumSum", x, place);
  if (size < 0) return x.graph()->Fail(absl::OkStatus());
  if (size == 0) return x;
  AxisRanges padding(x.rank(), {0, 0});
  padding[place] = {size - 1, 0};
  return Reduce("CumSum", v1::ADD, SlidingWindow(Pad(x, padding), place, {.size = size}), -1, false);
}

}  // namespace kiln::client
