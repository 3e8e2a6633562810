#include "compiler/kernel/bounds.h"

#include <algorithm>
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

constexpr size_t kMaxComparisons = 16;

// How many facts one proof may use together.
constexpr int kMaxFacts = 2;

bool HaveCommonAtom(const Polynomial& a, const Polynomial& b) {
  const auto has = [&](const UOp* atom) {
    return std::any_of(a.terms().begin(), a.terms().end(), [&](const Polynomial::Term& term) {
      return std::find(term.atoms.begin(), term.atoms.end(), atom) != term.atoms.end();
    });
  };
  return std::any_of(b.terms().begin(), b.terms().end(), [&](const Polynomial::Term& term) {
    return std::any_of(term.atoms.begin(), term.atoms.end(), has);
  });
}

// Whether `polynomial` is 0 or more, as all of `known` are: itself, or what is left of it without some of them, each as
// often as its leading term goes into it.
bool Follows(Graph& graph, const Polynomial& polynomial, absl::Span<const Polynomial> known, int facts) {
  if (IsNonNegative(graph, polynomial)) return true;
  if (facts == 0) return false;
  for (size_t i = 0; i < known.size(); ++i) {
    const Polynomial& fact = known[i];
    if (!HaveCommonAtom(polynomial, fact)) continue;
    Polynomial times, rest;
    polynomial.Divide(fact, times, rest);
    const Polynomial number(std::max<int64_t>(times.constant().value_or(1), 1));
    if (Follows(graph, polynomial - fact * number, known.subspan(i + 1), facts - 1)) return true;
  }
  return false;
}

// Where the size depends on variables, so may the index.
// `gate` (or null) holds, and with it each of its comparisons.
bool IsInside(Graph& graph, UOp* index, const Dim& size, UOp* gate) {
  if (size.IsConst()) return false;
  std::vector<Polynomial> known;  // not negative
  std::vector<UOp*> conjuncts;
  if (gate != nullptr) conjuncts = ConjunctsOf(gate).parts;
  for (UOp* uop : conjuncts) {
    if (known.size() == kMaxComparisons) break;
    const bool negated = uop->op() == Op::CMPNE && uop->src(1)->IsConstInt(1) && uop->src(0)->dtype() == DType::kBool;
    const UOp* less = negated ? uop->src(0) : uop;
    if (less->op() != Op::CMPLT || !IsInt(less->src(0)->dtype())) continue;
    const Polynomial apart = PolynomialOf(graph, less->src(0)) - PolynomialOf(graph, less->src(1));
    known.push_back(negated ? apart : Polynomial(-1) - apart);
  }
  const Polynomial place = PolynomialOf(graph, index);
  return Follows(graph, place, known, kMaxFacts) &&
         Follows(graph, PolynomialOf(graph, size) - place - Polynomial(1), known, kMaxFacts);
}

// Whether `gate` is a conjunction in which all that `condition` is made of stands.
bool Says(UOp* gate, UOp* condition) {
  const std::vector<UOp*> said = ConjunctsOf(gate).parts;
  const Conjuncts wanted = ConjunctsOf(condition);
  return wanted.complete && std::all_of(wanted.parts.begin(), wanted.parts.end(), [&](const UOp* part) {
           return std::find(said.begin(), said.end(), part) != said.end();
         });
}

}  // namespace

absl::StatusOr<UOp*> ProveBounds(Graph& graph, UOp* sink, bool strict, uint32_t* gates) {
  uint32_t count = 0;
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
      const bool said = gate != nullptr && Says(gate, And(graph, from_0, to_size));
      const bool proved = bounds.min >= 0 && bounds.max < size.min();
      if (!never && !said && !proved && !IsInside(graph, index, size, gate)) {
        if (strict) {
          return MakeError(v1::OUT_OF_BOUNDS, absl::StrCat("an index of a buffer of shape ", ToString(Shape{size}),
                                                           " cannot be proved in range, and `strict` forbids a guard"));
        }
        ++count;
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
  if (gates != nullptr) *gates = count;
  return done[sink];
}

}  // namespace kiln::compiler
