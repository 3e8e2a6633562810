#include "compiler/kernel/simplify_ranges.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "compiler/ir/build.h"
#include "compiler/ir/polynomial.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/symbolic.h"

namespace kiln::compiler {
namespace {

// Kernels with more nodes than this are left alone: every try costs a pass over
// the kernel.
constexpr size_t kMaxNodes = 4000;

int Divisions(absl::Span<UOp* const> order) {
  return static_cast<int>(std::count_if(order.begin(), order.end(), [](const UOp* uop) {
    return uop->op() == Op::FLOORDIV || uop->op() == Op::FLOORMOD;
  }));
}

// The END or REDUCE `closer` without its range number `k + 1`, over `merged` in
// place of number `k`.
UOp* CloseMerged(Graph& graph, const UOp* closer, size_t k, UOp* merged) {
  std::vector<UOp*> src(closer->src().begin(), closer->src().end());
  src[1 + k] = merged;
  src.erase(src.begin() + static_cast<int64_t>(k) + 2);
  return graph.Make(closer->op(), src, closer->arg());
}

bool Closes(const UOp* uop) { return uop->op() == Op::END || uop->op() == Op::REDUCE; }

// An END or REDUCE under `sink` that closes `outer` or `inner`; null if there is none.
UOp* CloserOf(UOp* sink, const UOp* outer, const UOp* inner) {
  for (UOp* uop : Toposort(sink)) {
    if (!Closes(uop)) continue;
    for (const UOp* range : uop->src().subspan(1)) {
      if (range == outer || range == inner) return uop;
    }
  }
  return nullptr;
}

// `sink` with `merged` closed in the place of `outer` and `inner`, or nullptr if an
// END or REDUCE closes one of them without the other next to it: reductions of one
// kernel may share loops.
UOp* CloseEverywhere(Graph& graph, UOp* sink, UOp* outer, UOp* inner, UOp* merged) {
  while (UOp* closer = CloserOf(sink, outer, inner)) {
    const auto ranges = closer->src().subspan(1);
    const size_t k = static_cast<size_t>(std::find(ranges.begin(), ranges.end(), outer) - ranges.begin());
    if (k + 1 >= ranges.size() || ranges[k + 1] != inner) return nullptr;
    sink = Substitute(sink, {{closer, CloseMerged(graph, closer, k, merged)}}, graph);
  }
  return sink;
}

// The same of two loops whose sizes are a matter of variables, by which there is nothing to divide: every place must be
// a matter of the merged loop, and nothing else may have to do with the two.
UOp* TryMergeVarying(Graph& graph, UOp* sink, UOp* outer, UOp* inner) {
  const Polynomial inner_size = PolynomialOf(graph, inner->src(0));
  const Polynomial size = PolynomialOf(graph, outer->src(0)) * inner_size;
  if (!size.exact() || !size.Range().has_value()) return nullptr;
  UOp* merged =
      graph.Make(Op::RANGE, {FromPolynomial(graph, size)}, RangeArg{graph.NextId(), outer->arg_as<RangeArg>().type});
  absl::flat_hash_map<UOp*, UOp*> places;
  for (const UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::INDEX) continue;
    Polynomial of_outer, of_inner, without, rest;
    const Polynomial place = PolynomialOf(graph, uop->src(1));
    if (!place.Split(outer, of_outer, without) || !without.Split(inner, of_inner, rest) ||
        !of_outer.Equals(of_inner * inner_size))
      return nullptr;
    if (of_inner.terms().empty()) continue;
    const Polynomial walked = of_inner * Polynomial::Atom(merged) + rest;
    if (!walked.exact()) return nullptr;
    places[uop->src(1)] = FromPolynomial(graph, walked);
  }
  UOp* rewired = CloseEverywhere(graph, sink, outer, inner, merged);
  if (rewired == nullptr) return nullptr;
  UOp* walked = Substitute(rewired, places, graph);
  for (const UOp* uop : Toposort(walked)) {
    if (uop == outer || uop == inner) return nullptr;
  }
  return walked;
}

// `sink` with loops `outer` and `inner` merged, or nullptr if it gets worse. Lanes lie along a loop whose size is a
// number: that is not merged with one that varies.
UOp* TryMerge(Graph& graph, UOp* sink, UOp* outer, UOp* inner, int divisions) {
  if (!outer->src(0)->IsConst() && !inner->src(0)->IsConst()) return TryMergeVarying(graph, sink, outer, inner);
  if (!outer->src(0)->IsConst() || !inner->src(0)->IsConst()) return nullptr;
  const int64_t inner_size = inner->src(0)->const_int();
  const int64_t size = outer->src(0)->const_int() * inner_size;
  UOp* merged = graph.Make(Op::RANGE, {Idx(graph, size)}, RangeArg{graph.NextId(), outer->arg_as<RangeArg>().type});
  UOp* rewired = CloseEverywhere(graph, sink, outer, inner, merged);
  if (rewired == nullptr) return nullptr;
  UOp* split = Substitute(rewired,
                          {{outer, graph.Make(Op::FLOORDIV, {merged, Idx(graph, inner_size)})},
                           {inner, graph.Make(Op::FLOORMOD, {merged, Idx(graph, inner_size)})}},
                          graph);
  UOp* simplified = GraphRewrite(split, SymbolicRules(), graph);
  return Divisions(Toposort(simplified)) > divisions ? nullptr : simplified;
}

UOp* MergeOnce(Graph& graph, UOp* sink, std::vector<std::pair<UOp*, UOp*>>& failed) {
  const std::vector<UOp*> order = ToposortUpTo(sink, kMaxNodes);
  if (order.empty()) return nullptr;
  const int divisions = Divisions(order);
  for (UOp* uop : order) {
    if (!Closes(uop)) continue;
    for (size_t k = 0; k + 2 < uop->src().size(); ++k) {
      const std::pair<UOp*, UOp*> pair = {uop->src(1 + k), uop->src(2 + k)};
      if (std::find(failed.begin(), failed.end(), pair) != failed.end()) continue;
      if (UOp* merged = TryMerge(graph, sink, pair.first, pair.second, divisions)) return merged;
      failed.push_back(pair);
    }
  }
  return nullptr;
}

}  // namespace

UOp* SimplifyRanges(Graph& graph, UOp* sink) {
  std::vector<std::pair<UOp*, UOp*>> failed;
  while (UOp* merged = MergeOnce(graph, sink, failed)) sink = merged;
  return sink;
}

}  // namespace kiln::compiler
