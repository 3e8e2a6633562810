#include "compiler/opt/apply.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "base/check.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/expand.h"
#include "compiler/kernel/ranges.h"
#include "compiler/opt/local_buffer.h"
#include "compiler/opt/outer_reduce.h"
#include "compiler/opt/tensor_tile.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/linear.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

bool IsLoop(const UOp* range) {
  const AxisType type = range->arg_as<RangeArg>().type;
  return type != AxisType::kUpcast && type != AxisType::kUnroll;
}

bool Closes(const UOp* uop, const UOp* range) {
  if (uop->op() != Op::END && uop->op() != Op::REDUCE) return false;
  const auto ranges = uop->src().subspan(1);
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

UOp* MakeRange(Graph& graph, UOp* size, int64_t id, AxisType type) {
  return graph.Make(Op::RANGE, {size}, RangeArg{id, type});
}
UOp* MakeRange(Graph& graph, int64_t size, int64_t id, AxisType type) {
  return MakeRange(graph, Idx(graph, size), id, type);
}

// `size` / `factor` of a size that is a multiple: a number, or what PaddedSize made.
UOp* Quotient(Graph& graph, UOp* size, int64_t factor) {
  if (size->IsConst()) {
    KILN_CHECK(size->const_int() % factor == 0);
    return Idx(graph, size->const_int() / factor);
  }
  KILN_CHECK(size->op() == Op::MUL && size->src(1)->IsConst() && size->src(1)->const_int() % factor == 0);
  return Mul(graph, size->src(0), Idx(graph, size->src(1)->const_int() / factor));
}

// The next multiple of `multiple`.
UOp* PaddedSize(Graph& graph, UOp* size, int64_t multiple) {
  if (size->IsConst()) return Idx(graph, (size->const_int() + multiple - 1) / multiple * multiple);
  UOp* up = Add(graph, size, Idx(graph, multiple - 1));
  return Mul(graph, graph.Make(Op::FLOORDIV, {up, Idx(graph, multiple)}), Idx(graph, multiple));
}

// `sink` with `value` in place of `range`, and `closed` where it was closed.
UOp* ReplaceRange(Graph& graph, UOp* sink, UOp* range, UOp* value, absl::Span<UOp* const> closed) {
  absl::flat_hash_map<UOp*, UOp*> done = {{range, value}};
  for (UOp* uop : Toposort(sink)) {
    if (uop == range) continue;
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) {
      if (source == range && Closes(uop, range)) {
        src.insert(src.end(), closed.begin(), closed.end());
      } else {
        src.push_back(done[source]);
      }
    }
    done[uop] = graph.Make(uop->op(), src, uop->arg());
  }
  return done[sink];
}

bool Below(UOp* root, const UOp* uop) {
  const std::vector<UOp*> order = Toposort(root);
  return std::find(order.begin(), order.end(), uop) != order.end();
}

// Lanes of one dimension are one range, but for those of a REDUCE that stands inside
// another, which both close theirs.
UOp* LaneRange(Graph& graph, UOp* sink, const UOp* split, const OptOp& opt) {
  UOp* lane = MakeRange(graph, opt.factor(), kLaneIds + opt.dimension, opt.target);
  if (opt.target != AxisType::kUnroll) return lane;
  std::vector<UOp*> mine, others;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::REDUCE) continue;
    if (Closes(uop, split)) mine.push_back(uop);
    if (Closes(uop, lane)) others.push_back(uop);
  }
  for (UOp* reduce : mine) {
    for (UOp* other : others) {
      if (reduce != other && (Below(reduce, other) || Below(other, reduce)))
        return MakeRange(graph, opt.factor(), kLaneIds + opt.dimension + graph.NextId() * kLaneDimensions, opt.target);
    }
  }
  return lane;
}

// -- The rows of opt_ops.def. `axes` are AxesOf(sink).

using Axes = std::vector<UOp*>;

UOp* AxisAt(const Axes& axes, int64_t number) { return axes.at(static_cast<size_t>(number)); }

UOp* ApplySplit(Graph& graph, UOp* sink, const Axes& axes, const OptOp& opt) {
  UOp* range = AxisAt(axes, opt.axis);
  const bool lane = opt.target == AxisType::kUpcast || opt.target == AxisType::kUnroll;
  UOp* rest =
      MakeRange(graph, Quotient(graph, range->src(0), opt.factor()), graph.NextId(), range->arg_as<RangeArg>().type);
  UOp* part = lane ? LaneRange(graph, sink, range, opt) : MakeRange(graph, opt.factor(), graph.NextId(), opt.target);
  UOp* outer = opt.top ? part : rest;
  UOp* inner = opt.top ? rest : part;
  UOp* value = Add(graph, Mul(graph, outer, inner->src(0)), inner);
  return ReplaceRange(graph, sink, range, value, {outer, inner});
}

UOp* ApplySwap(Graph& graph, UOp* sink, const Axes& axes, const OptOp& opt) {
  UOp *a = AxisAt(axes, opt.axis), *b = AxisAt(axes, opt.other());
  const std::vector<UOp*> output = OutputRanges(sink);
  const auto is_output = [&](UOp* range) { return std::find(output.begin(), output.end(), range) != output.end(); };
  if (is_output(a) != is_output(b))
    return is_output(a) ? OuterReduce(graph, sink, a, b) : OuterReduce(graph, sink, b, a);
  absl::flat_hash_map<UOp*, UOp*> swapped;
  for (UOp* uop : Toposort(sink)) {
    if (!Closes(uop, a) || !Closes(uop, b)) continue;
    std::vector<UOp*> src(uop->src().begin(), uop->src().end());
    std::swap(*std::find(src.begin() + 1, src.end(), a), *std::find(src.begin() + 1, src.end(), b));
    swapped[uop] = graph.Make(uop->op(), src, uop->arg());
  }
  return Substitute(sink, swapped, graph);
}

UOp* LastOf(Graph& graph, UOp* size) {
  return size->IsConst() ? Idx(graph, size->const_int() - 1) : Add(graph, size, Idx(graph, -1));
}

// Gates every write that depends on the padded axis, and every read unless `clamp`,
// and feeds the identity to the reductions over it.
UOp* PadTo(Graph& graph, UOp* sink, UOp* range, int64_t multiple, bool clamp) {
  UOp* size = range->src(0);
  UOp* padded = PaddedSize(graph, size, multiple);
  if (padded == size) return sink;
  const absl::flat_hash_map<UOp*, RangeSet> open = OpenRanges(sink);
  UOp* wide = MakeRange(graph, padded, graph.NextId(), range->arg_as<RangeArg>().type);
  UOp* inside = Lt(graph, wide, size);
  auto depends = [&](UOp* uop) {
    const RangeSet& ranges = open.at(uop);
    return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
  };
  absl::flat_hash_map<UOp*, UOp*> done = {{range, wide}};
  absl::flat_hash_map<UOp*, UOp*> clamped = {{range, AtMost(graph, wide, LastOf(graph, size))}};
  for (UOp* uop : Toposort(sink)) {
    if (uop == range) continue;
    std::vector<UOp*> src, inner;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    const bool access = (uop->op() == Op::LOAD || uop->op() == Op::STORE) && uop->src(0)->op() == Op::INDEX;
    if (clamp && !Closes(uop, range)) {
      for (UOp* source : uop->src()) inner.push_back(clamped[source]);
      clamped[uop] = graph.Make(uop->op(), inner, uop->arg());
    }
    if (access && clamp && uop->op() == Op::LOAD) {
      done[uop] = clamped[uop];
      continue;
    }
    if (access && depends(uop->op() == Op::LOAD ? uop->src(0)->src(1) : uop)) {
      if (src.size() < 2) src.push_back(ConstNumber(graph, uop->dtype(), 0));
      if (src.size() < 3) {
        src.push_back(inside);
      } else {
        src[2] = And(graph, src[2], inside);
      }
    } else if (uop->op() == Op::REDUCE && Closes(uop, range)) {
      src[0] = Where(graph, inside, src[0], Identity(graph, uop->arg_as<ReduceArg>().op, src[0]->dtype()));
    }
    done[uop] = graph.Make(uop->op(), src, uop->arg());
    if (clamp && Closes(uop, range)) clamped[uop] = done[uop];
  }
  return done[sink];
}

UOp* ApplyPadTo(Graph& graph, UOp* sink, const Axes& axes, const OptOp& opt) {
  return PadTo(graph, sink, AxisAt(axes, opt.axis), opt.multiple(), opt.clamp);
}

// Two neighbouring loops of the output as one: (outer, inner) = (fused / n, fused mod n).
UOp* ApplyFuse(Graph& graph, UOp* sink, const Axes& axes, const OptOp& opt) {
  UOp *outer = AxisAt(axes, opt.axis), *inner = AxisAt(axes, opt.axis + 1);
  const int64_t n = inner->src(0)->const_int();
  UOp* fused = MakeRange(graph, outer->src(0)->const_int() * n, graph.NextId(), outer->arg_as<RangeArg>().type);
  sink = ReplaceRange(graph, sink, inner, graph.Make(Op::FLOORMOD, {fused, Idx(graph, n)}), {});
  return ReplaceRange(graph, sink, outer, graph.Make(Op::FLOORDIV, {fused, Idx(graph, n)}), {fused});
}

// Its axes count on behind all others, with the outermost loops of OuterReduces.
UOp* ApplyLocal(Graph& graph, UOp* sink, Axes axes, const OptOp& opt) {
  for (UOp* nest : OuterReduces(sink)) axes.push_back(nest->src(1));
  UOp* level = AxisAt(axes, opt.axis);
  const auto number = static_cast<size_t>(opt.operand());
  const std::vector<UOp*> operands = OperandsOf(sink);
  if (number < operands.size()) return CopyToLocal(graph, sink, operands[number], level);
  const std::optional<Packed> packed = PackInWords(graph, sink, operands.at(number - operands.size()));
  KILN_CHECK(packed.has_value());
  return CopyToLocal(graph, packed->sink, packed->operand, level, packed->along);
}

UOp* ApplyTensor(Graph& graph, UOp* sink, const Axes& axes, const OptOp& opt) {
  const auto axis = [&](int64_t number) { return AxisAt(AxesOf(sink), number); };
  const MatrixTile& tile = MatrixTiles().at(static_cast<size_t>(opt.tile()));
  const TiledProduct tiled = PutTile(graph, sink, AxisAt(axes, opt.axis), AxisAt(axes, opt.columns()), tile);
  sink = PadTo(graph, tiled.sink, axis(opt.axis), tile.m, /*clamp=*/true);
  sink = PadTo(graph, sink, axis(opt.columns()), tile.n, /*clamp=*/true);
  UOp* column = axis(opt.columns());
  sink = ReplaceRange(graph, sink, axis(opt.axis), tiled.row_value, tiled.row_loops);
  return ReplaceRange(graph, sink, column, tiled.column_value, tiled.column_loops);
}

UOp* ApplyThread(Graph& graph, UOp* sink, const Axes& axes, const OptOp& opt) {
  UOp* range = AxisAt(axes, opt.axis);
  UOp* typed = graph.Make(Op::RANGE, range->src(), RangeArg{range->arg_as<RangeArg>().id, AxisType::kThread});
  return Substitute(sink, {{range, typed}}, graph);
}

// Loops of one iteration are no loops.
UOp* DropUnitLoops(Graph& graph, UOp* sink) {
  for (UOp* axis : AxesOf(sink)) {
    if (axis->src(0)->IsConstInt(1)) sink = ReplaceRange(graph, sink, axis, Idx(graph, 0), {});
  }
  // What closes nothing any more is its body, also inside another such.
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    for (UOp* source : uop->src()) src.push_back(done[source]);
    const bool closes_nothing =
        (uop->op() == Op::END || (uop->op() == Op::REDUCE && uop->arg_as<ReduceArg>().axes.empty())) && src.size() == 1;
    done[uop] = closes_nothing ? src[0] : graph.Make(uop->op(), src, uop->arg());
  }
  return done[sink];
}

}  // namespace

std::vector<UOp*> AxesOf(UOp* sink) {
  std::vector<UOp*> axes, reduced;
  for (UOp* uop : Toposort(sink)) {
    const bool output = std::find(sink->src().begin(), sink->src().end(), uop) != sink->src().end();
    if (!(output && uop->op() == Op::END) && uop->op() != Op::REDUCE) continue;
    for (UOp* range : uop->src().subspan(1)) {
      if (IsLoop(range)) (output ? axes : reduced).push_back(range);
    }
  }
  axes.insert(axes.end(), reduced.begin(), reduced.end());
  return axes;
}

UOp* ApplyOpt(Graph& graph, UOp* sink, const OptOp& opt) {
  switch (opt.kind) {
#define OPT_OP(Name, ...) \
  case OptOp::k##Name: return Apply##Name(graph, sink, AxesOf(sink), opt);
#include "compiler/opt/opt_ops.def"
#undef OPT_OP
  }
  return sink;
}

UOp* ApplyOpts(Graph& graph, UOp* sink, const std::vector<OptOp>& opts) {
  for (const OptOp& opt : opts) sink = ApplyOpt(graph, sink, opt);
  return GraphRewrite(DropUnitLoops(graph, sink), SymbolicRules(), graph);
}

}  // namespace kiln::compiler
