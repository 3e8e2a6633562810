#include "compiler/schedule/fused_cost.h"

#include <algorithm>
#include <vector>

#include "compiler/ir/build.h"
#include "compiler/ir/polynomial.h"
#include "compiler/rules/scan.h"
#include "compiler/rules/symbolic.h"
#include "compiler/schedule/index_lowering.h"

namespace kiln::compiler {
namespace {

// Cost of evaluating one element, in units of one simple instruction.
double OpCost(const UOp* uop) {
  switch (uop->op()) {
    case Op::EXP2:
    case Op::LOG2:
    case Op::SIN: return 20;
    case Op::POW: return 40;
    case Op::THREEFRY: return 60;
    case Op::SQRT:
    case Op::FDIV:
    case Op::RECIPROCAL: return 6;
    case Op::FLOORDIV:
    case Op::FLOORMOD:
    case Op::CDIV:
    case Op::CMOD: return 12;
    case Op::STACK: return static_cast<double>(uop->src().size());
    case Op::BITCAST: return Fanout(uop) > 1 ? 3.0 * Fanout(uop) : 1;
    case Op::PAD:
    case Op::INDEX: return 2;
    default: return IsElementwise(uop->op()) ? 1 : 0;
  }
}

// A kernel is split before it has more than about this many nodes: the code
// generator's time grows faster than its input.
constexpr double kMaxKernelNodes = 600;

constexpr double kThreefryNodes = 130;

// Sources of more nodes than this hold no mask worth looking for, and all that is
// looked at for one program is this much.
constexpr double kMaxMaskNodes = 300;
constexpr double kMaxTried = 100'000;

class Analysis {
 public:
  Analysis(Graph& graph, const StoreOrder& stores, const absl::flat_hash_set<UOp*>& realized,
           const absl::flat_hash_set<UOp*>& likely)
      : graph_(graph), stores_(stores), likely_(likely), simplify_(SymbolicRules(), graph) {
    fusion_.realized = realized;
  }

  Fusion Run(absl::Span<UOp* const> order) {
    for (UOp* uop : order) {
      const bool collapses = uop->op() == Op::REDUCE && !fusion_.realized.contains(uop) && Collapses(uop);
      if (!collapses) fusion_.costs[uop] = Sum(uop);
      whole_nodes_[uop] = WholeNodes(uop);
      if (collapses) {
        fusion_.collapsed.insert(uop);
        Pin(uop);
      } else if (CanBeRealized(uop) && fusion_.costs[uop].nodes > kMaxKernelNodes) {
        fusion_.realized.insert(uop);
      }
      compares_[uop] = !IsBuffer(uop) && Compares(uop);
      if (IsBuffer(uop) && uop->op() != Op::PARAM && uop->op() != Op::BUFFER && uop->op() != Op::BINARY) GiveHome(uop);
    }
    return std::move(fusion_);
  }

 private:
  // Whether users of the value load it.
  bool IsBuffer(UOp* uop) const {
    return (EndsFusion(uop->op()) && !fusion_.collapsed.contains(uop)) || fusion_.realized.contains(uop);
  }

  Fused Sum(UOp* uop) {
    constexpr Fused kBuffer = {kLoadCost, 1};
    Fused sum = {OpCost(uop), uop->op() == Op::THREEFRY ? kThreefryNodes : 1};
    for (UOp* source : DataSources(uop)) {
      const Fused below = IsBuffer(source) || likely_.contains(source) ? kBuffer : fusion_.costs[source];
      sum.cost += below.cost * Fanout(uop);
      sum.nodes += below.nodes * Fanout(uop);
    }
    return {std::min(sum.cost, 1e6), std::min(sum.nodes, 1e6)};
  }

  // All that lowering it takes, through what is likely to be realised, but is not yet.
  double WholeNodes(UOp* uop) {
    double nodes = uop->op() == Op::THREEFRY ? kThreefryNodes : 1;
    for (UOp* source : DataSources(uop)) nodes += (IsBuffer(source) ? 1 : whole_nodes_[source]) * Fanout(uop);
    return std::min(nodes, 1e6);
  }

  // Whether elements differ by where they stand alone: what masks are made of.
  bool Compares(UOp* uop) {
    if (uop->op() == Op::PAD || uop->op() == Op::CMPLT || uop->op() == Op::CMPNE) return true;
    const auto sources = DataSources(uop);
    return std::any_of(sources.begin(), sources.end(), [&](UOp* source) { return compares_[source]; });
  }

  // Lowers `reduce` on its own and looks whether a loop is left.
  bool Collapses(UOp* reduce) {
    UOp* source = reduce->src(0);
    if (IsBuffer(source) || !compares_[source] || MaxElements(source->shape()) == 0) return false;
    const double nodes = WholeNodes(reduce);
    tried_ += nodes;
    if (nodes > kMaxMaskNodes || tried_ > kMaxTried) return false;
    Indices indices;
    for (const Dim& size : reduce->shape()) {
      indices.push_back(
          size == 1 ? Idx(graph_, 0)
                    : graph_.Make(Op::RANGE, {IndexOf(graph_, size)}, RangeArg{graph_.NextId(), AxisType::kLoop}));
    }
    const Layouts by_shape;
    IndexLowering lowering(graph_, simplify_, stores_, homes_, by_shape, reduce);
    Fused result = {0, nodes};
    for (UOp* uop : Toposort(lowering.Lower(reduce, indices))) {
      if (uop->op() == Op::REDUCE) {
        // A scan stays a loop, but what it reads must not be hidden from it, either.
        if (IsScan(uop, indices)) Pin(reduce);
        return false;
      }
      if (uop->op() == Op::LOAD) result.cost += kLoadCost;
      if (IsElementwise(uop->op())) result.cost += OpCost(uop);
    }
    fusion_.costs[reduce] = result;
    return true;
  }

  bool IsScan(UOp* reduce, const Indices& indices) {
    return std::any_of(indices.begin(), indices.end(), [&](UOp* index) {
      return index->op() == Op::RANGE && ScanOf(graph_, simplify_, reduce, index).has_value();
    });
  }

  // A buffer for trials; no program gets to see it.
  void GiveHome(UOp* value) {
    BufferArg arg;
    arg.slot = value->id();
    arg.dtype = value->dtype();
    arg.name = "trial";
    homes_[value] = graph_.Make(Op::BUFFER, {ShapeSource(graph_, value->shape())}, arg);
  }

  // Everything between `reduce` and the buffers below it.
  void Pin(UOp* reduce) {
    std::vector<UOp*> stack = {reduce->src(0)};
    while (!stack.empty()) {
      UOp* uop = stack.back();
      stack.pop_back();
      if (IsBuffer(uop) || !fusion_.pinned.insert(uop).second) continue;
      for (UOp* source : DataSources(uop)) stack.push_back(source);
    }
  }

  Graph& graph_;
  const StoreOrder& stores_;
  const absl::flat_hash_set<UOp*>& likely_;
  Rewriter simplify_;
  Fusion fusion_;
  absl::flat_hash_map<UOp*, bool> compares_;
  absl::flat_hash_map<UOp*, double> whole_nodes_;
  absl::flat_hash_map<UOp*, UOp*> homes_;  // as KernelSplit will have them
  double tried_ = 0;
};

}  // namespace

bool EndsFusion(Op op) {
  return op == Op::PARAM || op == Op::BUFFER || op == Op::BINARY || op == Op::LOAD || op == Op::REDUCE;
}

int Fanout(const UOp* uop) {
  if (uop->op() != Op::BITCAST) return 1;
  return std::max(1, ItemSize(uop->dtype()) / std::max(1, ItemSize(uop->src(0)->dtype())));
}

absl::Span<UOp* const> DataSources(const UOp* uop) {
  switch (uop->op()) {
    case Op::PARAM:
    case Op::BUFFER: return {};
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::PAD:
    case Op::SHRINK:
    case Op::REDUCE: return uop->src().subspan(0, 1);
    default: return uop->src();
  }
}

bool CanBeRealized(const UOp* uop) {
  if (uop->dtype() == DType::kVoid || IsWeak(uop->dtype())) return false;
  switch (uop->op()) {
    case Op::INDEX:
    case Op::STACK:
    case Op::PAD:
    case Op::BITCAST: return true;
    default: return IsElementwise(uop->op());
  }
}

Fusion AnalyseFusion(Graph& graph, absl::Span<UOp* const> order, const StoreOrder& stores,
                     const absl::flat_hash_set<UOp*>& realized, const absl::flat_hash_set<UOp*>& likely) {
  return Analysis(graph, stores, realized, likely).Run(order);
}

}  // namespace kiln::compiler
