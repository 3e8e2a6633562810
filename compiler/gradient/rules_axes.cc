// The rules of ops that join, pick and reduce elements: STACK, INDEX and REDUCE.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/gradient/rules.h"
#include "compiler/ir/build.h"
#include "compiler/ir/movement.h"

namespace kiln::compiler {
namespace {

// The greatest elements of each group share its cotangent evenly. Counted in
// float32 at least: a narrow float does not count far.
absl::Status GreatestRule(Vjp& v, const std::vector<int64_t>& axes) {
  Graph& graph = v.graph;
  const DType dtype = v.dy->dtype();
  const DType wide = IsNarrowFloat(dtype) ? DType::kFloat32 : dtype;
  UOp* less = graph.Make(Op::CMPNE, {v.x(0), v.uop});
  UOp* greatest = Where(graph, less, ConstNumber(graph, wide, 0), ConstNumber(graph, wide, 1));
  UOp* count = ReduceOver(graph, greatest, Op::ADD, axes);
  UOp* share = Cast(graph, graph.Make(Op::FDIV, {Cast(graph, v.dy, wide), count}), dtype);
  v.Give(0, Where(graph, less, ConstNumber(graph, dtype, 0), share));
  return absl::OkStatus();
}

// Each element's factor is the product of all others, without a division: pairs
// are multiplied up to the whole product as in a tournament; on the way back down,
// each gets what its pair got, times its partner.
absl::Status ProductRule(Vjp& v, const std::vector<int64_t>& axes) {
  Graph& graph = v.graph;
  const Shape& shape = v.x(0)->shape();
  if (NumElements(shape) == 0) return absl::OkStatus();
  std::vector<int64_t> order;
  for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) == axes.end()) order.push_back(axis);
  }
  for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) order.push_back(axis);
  }
  const int64_t rest = NumElements(v.uop->shape());
  const int64_t count = NumElements(shape) / rest;
  KILN_RETURN_IF_ERROR(CheckElements({rest, count + count % 2}));

  // (rest, count). A REDUCE of one element makes 1 of an Invalid one, as REDUCE
  // skips it.
  UOp* moved = PermuteTo(graph, v.x(0), order);
  UOp* level = ReduceOver(graph, ReshapeTo(graph, moved, {rest, count, 1}), Op::MUL, {2});
  level = ReshapeTo(graph, level, {rest, count});
  std::vector<UOp*> levels;
  std::vector<int64_t> counts;
  for (int64_t n = count; n > 1; n = (n + 1) / 2) {
    const int64_t pairs = (n + 1) / 2;
    counts.push_back(n);
    levels.push_back(ReshapeTo(graph, PadWith(graph, level, {0, 0}, {rest, 2 * pairs}, 1), {rest, pairs, 2}));
    level = ReshapeTo(graph, ReduceOver(graph, levels.back(), Op::MUL, {2}), {rest, pairs});
  }
  UOp* others = ReshapeTo(graph, v.dy, {rest, 1});
  for (size_t i = levels.size(); i-- > 0;) {
    const int64_t pairs = levels[i]->shape()[1];
    UOp* partner = graph.Make(Op::FLIP, {levels[i]}, AxesArg{{0, 0, 1}});
    UOp* each = Mul(graph, ReshapeTo(graph, others, {rest, pairs, 1}), partner);
    others = ShrinkTo(graph, ReshapeTo(graph, each, {rest, 2 * pairs}), {0, 0}, {rest, counts[i]});
  }
  v.Give(0, PermuteTo(graph, ReshapeTo(graph, others, moved->shape()), InverseOrder(order)));
  return absl::OkStatus();
}

// Of a one-hot row for each index, those in it that say no: (1, indices, size, 1).
UOp* NotChosen(Graph& graph, UOp* index, int64_t indices, int64_t size) {
  UOp* rows = ReshapeTo(graph, Cast(graph, index, kIndexType), {1, indices, 1, 1});
  return graph.Make(Op::CMPNE, {rows, ReshapeTo(graph, Counting(graph, size), {1, 1, size, 1})});
}

}  // namespace

absl::Status StackRule(Vjp& v) {
  for (size_t i = 0; i < v.uop->src().size(); ++i) {
    if (!v.Wants(i)) continue;
    Shape offset(v.dy->shape().size(), 0), slice = v.dy->shape();
    offset[0] = static_cast<int64_t>(i);
    slice[0] = 1;
    v.Give(i, ReshapeTo(v.graph, ShrinkTo(v.graph, v.dy, offset, slice), v.x(i)->shape()));
  }
  return absl::OkStatus();
}

// Index by index, from the last: the axes that the index brought become the axis
// that it picked from. Several picks of one element add up.
absl::Status IndexRule(Vjp& v) {
  Graph& graph = v.graph;
  const Shape& shape = v.x(0)->shape();
  if (NumElements(shape) == 0) return absl::OkStatus();
  const size_t indices = v.uop->src().size() - 1;
  int64_t before = 1, after = 1;
  for (size_t k = 0; k < indices; ++k) before *= NumElements(v.x(k + 1)->shape());
  for (size_t axis = indices; axis < shape.size(); ++axis) after *= shape[axis];
  if (before == 0) return absl::OkStatus();
  UOp* d = v.dy;
  for (size_t k = indices; k-- > 0;) {
    UOp* index = v.x(k + 1);
    const int64_t size = shape[k], picks = NumElements(index->shape());
    before /= picks;
    KILN_RETURN_IF_ERROR(CheckElements({before, picks, size, after}));
    if (index->IsConst() && index->const_int() >= 0 && index->const_int() < size) {
      d = PadWith(graph, ReshapeTo(graph, d, {before, 1, after}), {0, index->const_int(), 0}, {before, size, after}, 0);
    } else {
      d = Where(graph, NotChosen(graph, index, picks, size), ConstNumber(graph, d->dtype(), 0),
                ReshapeTo(graph, d, {before, picks, 1, after}));
      d = ReduceOver(graph, d, Op::ADD, {1});
    }
    after *= size;
  }
  v.Give(0, ReshapeTo(graph, d, shape));
  return absl::OkStatus();
}

absl::Status ReduceRule(Vjp& v) {
  if (v.uop->src().size() > 1) {
    return MakeError(v1::UNSUPPORTED_OP, "a gradient through REDUCE over RANGEs: gradients are of tensor graphs");
  }
  const ReduceArg& arg = v.uop->arg_as<ReduceArg>();
  switch (arg.op) {
    case Op::MAX: return GreatestRule(v, arg.axes);
    case Op::MUL: return ProductRule(v, arg.axes);
    default:  // ADD: all have the whole cotangent
      if (v.x(0)->shape() == v.dy->shape()) {
        v.Give(0, v.dy);
      } else {
        v.Give(0, Expand(v.graph, v.dy, v.x(0)->shape()));
      }
      return absl::OkStatus();
  }
}

}  // namespace kiln::compiler
