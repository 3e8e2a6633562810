#include "compiler/import/legacy/views.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/movement.h"

namespace kiln::compiler {
namespace {

absl::Status BadView(absl::string_view text) { return MakeError(v1::BAD_ARGUMENT, absl::StrCat("a view ", text)); }

// An axis that steps through the value: at least two elements, stride not 0.
struct Step {
  size_t axis;
  int64_t size;
  int64_t stride;  // above 0 once the axis is flipped
};

// One view, checked. Inside of the mask it has shape `inner` and begins at `begin`.
struct View {
  Shape shape, inner, begin;
  std::vector<int64_t> stride;
  __int128 offset = 0;  // of the first element inside of the mask
};

absl::StatusOr<View> ReadView(const v1::ViewArg::View& wire) {
  View view;
  view.shape.assign(wire.shape().begin(), wire.shape().end());
  view.stride.assign(wire.stride().begin(), wire.stride().end());
  const size_t rank = view.shape.size();
  const bool masked = wire.mask_begin_size() > 0 || wire.mask_end_size() > 0;
  if (rank > kMaxRank || view.stride.size() != rank) {
    return BadView(
        absl::StrCat("of ", rank, " axes with ", view.stride.size(), " strides; it wants as many, at most ", kMaxRank));
  }
  if (masked &&
      (static_cast<size_t>(wire.mask_begin_size()) != rank || static_cast<size_t>(wire.mask_end_size()) != rank))
    return BadView("whose mask has not one beginning and one end for each axis");
  for (int64_t size : view.shape) {
    if (size < 0) return BadView(absl::StrCat("with an axis of size ", size));
  }
  KILN_RETURN_IF_ERROR(CheckElements(view.shape));
  view.inner = view.shape;
  view.begin.assign(rank, 0);
  view.offset = wire.offset();
  for (size_t i = 0; masked && i < rank; ++i) {
    const int64_t begin = wire.mask_begin(static_cast<int>(i)), end = wire.mask_end(static_cast<int>(i));
    if (begin < 0 || end > view.shape[i] || begin > end) {
      return BadView(
          absl::StrCat("whose mask [", begin, ", ", end, ") is not in an axis of size ", int64_t{view.shape[i]}));
    }
    view.begin[i] = begin;
    view.inner[i] = end - begin;
    view.offset += static_cast<__int128>(begin) * view.stride[i];
  }
  return view;
}

absl::Status CheckReach(const View& view, int64_t elements) {
  __int128 low = view.offset, high = view.offset;
  for (size_t i = 0; i < view.inner.size(); ++i) {
    const __int128 reach = static_cast<__int128>(view.inner[i] - 1) * view.stride[i];
    (reach < 0 ? low : high) += reach;
  }
  if (low >= 0 && high < elements) return absl::OkStatus();
  return BadView(absl::StrCat("of shape ", ToString(view.shape), " that reaches outside of the ", elements,
                              " elements that it reads"));
}

UOp* SliceLast(Graph& graph, UOp* x, int64_t begin, int64_t size) {
  Shape offset(x->shape().size(), 0), shape = x->shape();
  offset.back() = begin;
  shape.back() = size;
  return ShrinkTo(graph, x, offset, shape);
}

// `flat` by `steps`, whose strides fall, as slices of slices: rows of the greatest
// stride, in each of them rows of the next, and so on. Or nullptr, where rows
// overlap or the last one is cut short.
UOp* SliceSteps(Graph& graph, UOp* flat, int64_t offset, const std::vector<Step>& steps) {
  if (steps.size() >= kMaxRank) return nullptr;
  int64_t length = flat->shape()[0];
  std::vector<std::pair<int64_t, const Step*>> cuts;
  for (size_t k = 0; k < steps.size(); ++k) {
    const __int128 rows = static_cast<__int128>(steps[k].size) * steps[k].stride;
    if (rows > length) return nullptr;
    const int64_t begin = std::min(offset, length - static_cast<int64_t>(rows));
    __int128 rest = offset - begin + 1;
    for (size_t later = k + 1; later < steps.size(); ++later)
      rest += static_cast<__int128>(steps[later].size - 1) * steps[later].stride;
    if (rest > steps[k].stride) return nullptr;
    cuts.emplace_back(begin, &steps[k]);
    offset -= begin;
    length = steps[k].stride;
  }
  UOp* x = flat;
  Shape shape;
  for (const auto& [begin, step] : cuts) {
    x = SliceLast(graph, x, begin, step->size * step->stride);
    shape.push_back(step->size);
    Shape rows = shape;
    rows.push_back(step->stride);
    x = ReshapeTo(graph, x, rows);
  }
  return ReshapeTo(graph, SliceLast(graph, x, offset, 1), shape);
}

// The same by computed places; any strides.
UOp* PickSteps(Graph& graph, UOp* flat, int64_t offset, const std::vector<Step>& steps) {
  UOp* place = Idx(graph, offset);
  for (size_t k = 0; k < steps.size(); ++k) {
    Shape axis(steps.size(), 1);
    axis[k] = steps[k].size;
    UOp* count = Mul(graph, Counting(graph, steps[k].size), Idx(graph, steps[k].stride));
    place = Add(graph, place, ReshapeTo(graph, count, axis));
  }
  return graph.Make(Op::INDEX, {flat, place});
}

// What is inside of the mask.
UOp* Inside(Graph& graph, UOp* base, const View& view) {
  int64_t offset = static_cast<int64_t>(view.offset);
  std::vector<Step> steps;
  std::vector<int64_t> flipped(view.inner.size(), 0);
  Shape sizes(view.inner.size(), 1);
  for (size_t i = 0; i < view.inner.size(); ++i) {
    if (view.inner[i] == 1 || view.stride[i] == 0) continue;
    if (view.stride[i] < 0) {
      flipped[i] = 1;
      offset += (view.inner[i] - 1) * view.stride[i];
    }
    sizes[i] = view.inner[i];
    steps.push_back({i, view.inner[i], std::abs(view.stride[i])});
  }
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.stride > b.stride; });
  std::vector<int64_t> axes;
  for (const Step& step : steps) axes.push_back(static_cast<int64_t>(step.axis));
  std::vector<int64_t> order(axes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::sort(order.begin(), order.end(), [&axes](int64_t a, int64_t b) { return axes[a] < axes[b]; });

  UOp* flat = ReshapeTo(graph, base, {NumElements(base->shape())});
  UOp* x = SliceSteps(graph, flat, offset, steps);
  if (x == nullptr) x = PickSteps(graph, flat, offset, steps);
  x = ReshapeTo(graph, PermuteTo(graph, x, order), sizes);
  if (std::count(flipped.begin(), flipped.end(), 1) > 0) x = graph.Make(Op::FLIP, {x}, AxesArg{flipped});
  return x->shape() == view.inner ? x : Expand(graph, x, view.inner);
}

absl::StatusOr<UOp*> ApplyView(Graph& graph, UOp* base, const View& view) {
  if (NumElements(view.inner) == 0) return Filled(graph, base->dtype(), view.shape, 0);
  KILN_RETURN_IF_ERROR(CheckReach(view, NumElements(base->shape())));
  if (view.inner == base->shape() && view.offset == 0) {  // perhaps nothing moves
    const Shape plain = RowMajorStrides(view.inner);
    bool same = true;
    for (size_t i = 0; i < plain.size(); ++i) same &= view.inner[i] == 1 || view.stride[i] == plain[i];
    if (same) return PadWith(graph, base, view.begin, view.shape, 0);
  }
  return PadWith(graph, Inside(graph, base, view), view.begin, view.shape, 0);
}

}  // namespace

absl::StatusOr<UOp*> ApplyViews(Graph& graph, UOp* base, const v1::ViewArg& views) {
  if (views.view_size() == 0) return BadView("of no views: its argument lists none");
  if (base->dtype() == DType::kVoid) return MakeError(v1::DTYPE_MISMATCH, "a VIEW of what is no value");
  for (const v1::ViewArg::View& wire : views.view()) {
    KILN_ASSIGN_OR_RETURN(const View view, ReadView(wire));
    KILN_ASSIGN_OR_RETURN(base, ApplyView(graph, base, view));
  }
  return base;
}

// True, wherever the first view reads, and false outside of its mask; from there on
// as any value.
absl::StatusOr<UOp*> MaskOfViews(Graph& graph, const v1::ViewArg& views) {
  v1::ViewArg still = views;
  if (still.view_size() > 0) {
    still.mutable_view(0)->set_offset(0);
    for (int64_t& stride : *still.mutable_view(0)->mutable_stride()) stride = 0;
  }
  return ApplyViews(graph, ConstInt(graph, DType::kBool, 1), still);
}

}  // namespace kiln::compiler
