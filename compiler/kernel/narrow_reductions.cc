#include "compiler/kernel/narrow_reductions.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/kernel/ranges.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/facts.h"
#include "compiler/rules/loop_condition.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

bool IsLane(const UOp* range) {
  const AxisType type = range->arg_as<RangeArg>().type;
  return type == AxisType::kUpcast || type == AxisType::kUnroll;
}

bool Has(absl::Span<UOp* const> ranges, const UOp* range) {
  return std::find(ranges.begin(), ranges.end(), range) != ranges.end();
}

void AddParts(UOp* gate, std::vector<UOp*>& conditions) {
  const std::vector<UOp*> parts = ConjunctsOf(gate).parts;
  conditions.insert(conditions.end(), parts.begin(), parts.end());
}

// Adds conditions without any of which `value` is `neutral`; of a sum, also those without which a factor has no
// element.
void AddNeeded(UOp* value, UOp* neutral, bool sum, std::vector<UOp*>& conditions) {
  if (value->op() == Op::WHERE && value->src(2) == neutral) {
    AddParts(value->src(0), conditions);
    AddNeeded(value->src(1), neutral, sum, conditions);
  } else if (value->op() == Op::LOAD && value->src().size() > 2 && value->src(1) == neutral) {
    AddParts(value->src(2), conditions);
  } else if (value->op() == Op::MUL && sum) {
    for (UOp* factor : value->src()) {
      if (factor->op() == Op::LOAD || factor->op() == Op::MUL) AddNeeded(factor, neutral, sum, conditions);
    }
  }
}

class Narrowing {
 public:
  Narrowing(Graph& graph, UOp* sink) : graph_(graph), open_(OpenRanges(sink)) {
    for (UOp* uop : Toposort(sink)) {
      if (uop->op() != Op::REDUCE) continue;
      for (UOp* range : uop->src().subspan(1)) ++closers_[range];
    }
  }

  // `reduce` with shorter loops; itself if it has none.
  UOp* Narrow(UOp* reduce) {
    const ReduceArg& arg = reduce->arg_as<ReduceArg>();
    if (arg.op != Op::ADD && arg.op != Op::MAX) return reduce;
    std::vector<UOp*> conditions;
    UOp* neutral = Identity(graph_, arg.op, reduce->dtype());
    AddNeeded(reduce->src(0), neutral, arg.op == Op::ADD, conditions);
    absl::flat_hash_map<UOp*, UOp*> known, turned;
    std::vector<UOp*> src(reduce->src().begin(), reduce->src().end());
    for (size_t k = 1; k < src.size(); ++k) {
      UOp* range = src[k];
      if (IsLane(range) || closers_[range] > 1) continue;
      const std::optional<Turns> turns = TurnsOf(reduce, range, conditions, known);
      if (!turns.has_value()) continue;
      UOp* low = Idx(graph_, 0);
      for (UOp* limit : turns->lows) low = graph_.Make(Op::MAX, {low, limit});
      UOp* high = range->src(0);
      for (UOp* limit : turns->highs) high = Minus(graph_.Make(Op::MAX, {Minus(high), Minus(limit)}));
      UOp* count = GraphRewrite(Add(graph_, high, Minus(low)), SymbolicRules(), graph_);
      src[k] = graph_.Make(Op::RANGE, {count}, RangeArg{graph_.NextId(), range->arg_as<RangeArg>().type});
      turned[range] = Add(graph_, low, src[k]);
    }
    if (turned.empty()) return reduce;
    src[0] = Substitute(Substitute(src[0], known, graph_), turned, graph_);
    return graph_.Make(Op::REDUCE, src, reduce->arg());
  }

 private:
  // What the conditions that only the loop `range` and those around the REDUCE have a part in say about it. They are
  // true in `known`.
  std::optional<Turns> TurnsOf(UOp* reduce, UOp* range, absl::Span<UOp* const> conditions,
                               absl::flat_hash_map<UOp*, UOp*>& known) {
    Turns all;
    DependsOn depends(range);
    for (UOp* condition : conditions) {
      const RangeSet& ranges = open_.at(condition);
      const bool alone = Has(ranges, range) && std::none_of(ranges.begin(), ranges.end(), [&](UOp* other) {
                           return other != range && (IsLane(other) || Has(reduce->src().subspan(1), other));
                         });
      if (!alone || known.contains(condition)) continue;
      const std::optional<Turns> turns = SolveFor(graph_, range, depends, {condition});
      if (!turns.has_value() || turns->equal != nullptr || turns->unequal != nullptr || !turns->gates.empty()) continue;
      all.lows.insert(all.lows.end(), turns->lows.begin(), turns->lows.end());
      all.highs.insert(all.highs.end(), turns->highs.begin(), turns->highs.end());
      known[condition] = ConstInt(graph_, DType::kBool, 1);
    }
    if (all.lows.empty() && all.highs.empty()) return std::nullopt;
    return all;
  }

  UOp* Minus(UOp* index) { return Mul(graph_, index, Idx(graph_, -1)); }

  Graph& graph_;
  const absl::flat_hash_map<UOp*, RangeSet> open_;
  absl::flat_hash_map<const UOp*, int> closers_;
};

}  // namespace

UOp* NarrowReductions(Graph& graph, UOp* sink) {
  Narrowing narrowing(graph, sink);
  absl::flat_hash_map<UOp*, UOp*> narrowed;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::REDUCE) continue;
    if (UOp* made = narrowing.Narrow(uop); made != uop) narrowed[uop] = made;
  }
  if (narrowed.empty()) return sink;
  return GraphRewrite(Substitute(sink, narrowed, graph), SymbolicRules(), graph);
}

}  // namespace kiln::compiler
