#include "compiler/kernel/bounds.h"

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/polynomial.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/facts.h"

namespace kiln::compiler {
namespace {

// Where the size depends on variables, so may the index.
bool IsInside(Graph& graph, UOp* index, const Dim& size) {
  if (size.IsConst()) return false;
  const Polynomial place = PolynomialOf(graph, index);
  return IsNonNegative(graph, place) && IsNonNegative(graph, PolynomialOf(graph, size) - place - Polynomial(1));
}

// Whether `gate` is a conjunction with `condition` in it.
bool Says(UOp* gate, const UOp* condition) {
  std::vector<UOp*> stack = {gate};
  while (!stack.empty()) {
    UOp* uop = stack.back();
    stack.pop_back();
    if (uop == condition) return true;
    if (uop->op() == Op::AND) stack.insert(stack.end(), uop->src().begin(), uop->src().end());
  }
  return false;
}

}  // namespace

absl::StatusOr<UOp*> ProveBounds(Graph& graph, UOp* sink, bool strict) {
  // In order, so that an index that is itself loaded is guarded first.
  absl::flat_hash_map<UOp*, UOp*> done;
  for (UOp* uop : Toposort(sink)) {
    std::vector<UOp*> src;
    bool changed = false;
    for (UOp* source : uop->src()) {
      src.push_back(done[source]);
      changed |= src.back() != source;
    }
    const bool access = (uop->op() == Op::LOAD || uop->op() == Op::STORE) && src[0]->op() == Op::INDEX;
    if (access) {
      const Dim size = src[0]->src(0)->shape()[0];
      UOp* index = src[0]->src(1);
      UOp* gate = src.size() > 2 ? src[2] : nullptr;
      const Bounds bounds = gate == nullptr ? index->bounds() : NarrowedBounds(index, FactsFrom(gate));
      UOp* from_0 = Not(graph, Lt(graph, index, Idx(graph, 0)));
      UOp* to_size = Lt(graph, index, IndexOf(graph, size));
      const bool never = gate != nullptr && gate->IsConstInt(0);
      const bool said = gate != nullptr && Says(gate, from_0) && Says(gate, to_size);
      const bool proved = bounds.min >= 0 && bounds.max < size.min();
      if (!never && !said && !proved && !IsInside(graph, index, size)) {
        if (strict) {
          return MakeError(v1::OUT_OF_BOUNDS, absl::StrCat("an index of a buffer of shape ", ToString(Shape{size}),
                                                           " cannot be proved in range, and `strict` forbids a guard"));
        }
        UOp* inside = And(graph, from_0, to_size);
        gate = gate == nullptr ? inside : And(graph, gate, inside);
        if (bounds.max < 0 || bounds.min >= size.max()) gate = ConstInt(graph, DType::kBool, 0);
        if (src.size() < 2) src.push_back(ConstNumber(graph, uop->dtype(), 0));
        src.resize(2);
        src.push_back(gate);
        changed = true;
      }
    }
    done[uop] = changed ? graph.Make(uop->op(), src, uop->arg()) : uop;
  }
  return done[sink];
}

}  // namespace kiln::compiler
