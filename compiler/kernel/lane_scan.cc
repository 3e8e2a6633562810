#include "compiler/kernel/lane_scan.h"

#include "compiler/ir/build.h"
#include "compiler/ir/movement.h"
#include "compiler/kernel/expand.h"

namespace kiln::compiler {
namespace {

bool IsLane(const UOp* uop) { return uop->op() == Op::RANGE && uop->arg_as<RangeArg>().id >= kLaneIds; }

// `value` with each lane moved up by `by` (down, if negative); `nothing` comes in at the end.
UOp* Moved(Graph& graph, UOp* value, int64_t by, const ConstArg& nothing) {
  const Shape& full = value->shape();
  Shape from(full.size(), 0), to(full.size(), 0), part = full;
  part.back() = int64_t{full.back()} - std::abs(by);
  (by > 0 ? to : from).back() = std::abs(by);
  UOp* kept = graph.Make(Op::SHRINK, {value, ShapeSource(graph, from), ShapeSource(graph, part)});
  return graph.Make(Op::PAD, {kept, ShapeSource(graph, to), ShapeSource(graph, full)}, nothing);
}

}  // namespace

std::optional<LaneScan> LaneScanOf(Graph& graph, UOp* reduce) {
  if (reduce->op() != Op::REDUCE || reduce->src().size() != 2 || !IsLane(reduce->src(1))) return std::nullopt;
  UOp *other = reduce->src(1), *value = reduce->src(0);
  if (value->op() != Op::WHERE || value->src(0)->op() != Op::CMPLT ||
      value->src(1) != Identity(graph, reduce->arg_as<ReduceArg>().op, value->dtype()))
    return std::nullopt;
  UOp *a = value->src(0)->src(0), *b = value->src(0)->src(1);
  UOp* lane = a == other ? b : a;
  if ((a != other && b != other) || !IsLane(lane) || LaneDimension(lane) != LaneDimension(other) ||
      lane->src(0) != other->src(0))
    return std::nullopt;
  return LaneScan{value->src(2), a == other};
}

UOp* ScanLanes(Graph& graph, Op reduce_op, UOp* value, bool descending) {
  const DType dtype = value->dtype();
  // -0 + x is x for every x, and not all its bits are 0: LLVM has a slow way to move those in.
  UOp* nothing =
      reduce_op == Op::ADD && IsFloat(dtype) ? ConstNumber(graph, dtype, -0.0) : Identity(graph, reduce_op, dtype);
  for (int64_t by = 1; by < value->shape().back(); by *= 2)
    value = graph.Make(reduce_op, {value, Moved(graph, value, descending ? -by : by, nothing->arg_as<ConstArg>())});
  return value;
}

UOp* LastLane(Graph& graph, UOp* scanned, bool descending) {
  Shape from(scanned->shape().size(), 0), part = scanned->shape();
  from.back() = descending ? 0 : int64_t{part.back()} - 1;
  part.back() = 1;
  return graph.Make(Op::SHRINK, {scanned, ShapeSource(graph, from), ShapeSource(graph, part)});
}

}  // namespace kiln::compiler
