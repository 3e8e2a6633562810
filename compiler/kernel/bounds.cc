#include "compiler/kernel/bounds.h"

#include <algorithm>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

constexpr __int128 kFar = __int128{1} << 70;

// A sum of terms, and the interval that a gate leaves it.
struct Fact {
  LinearForm sum;  // without its constant
  __int128 min = -kFar;
  __int128 max = kFar;
};

void Learn(std::vector<Fact>& facts, UOp* uop, __int128 min, __int128 max) {
  LinearForm sum = ToLinear(uop);
  // The comparison is with the wrapped sum; it speaks of the exact one only
  // where nothing wraps.
  const Bounds range = sum.Range();
  if (range.min < BoundsOf(kIndexType).min || range.max > BoundsOf(kIndexType).max || sum.terms.empty()) return;
  const __int128 constant = sum.constant;
  sum.constant = 0;
  for (Fact& fact : facts) {
    const bool same =
        std::equal(fact.sum.terms.begin(), fact.sum.terms.end(), sum.terms.begin(), sum.terms.end(),
                   [](const auto& a, const auto& b) { return a.node == b.node && a.coefficient == b.coefficient; });
    if (!same) continue;
    fact.min = std::max(fact.min, min - constant);
    fact.max = std::min(fact.max, max - constant);
    return;
  }
  facts.push_back({std::move(sum), min - constant, max - constant});
}

// What a true gate says about the nodes it compares with constants.
std::vector<Fact> FactsFrom(const UOp* gate) {
  std::vector<Fact> facts;
  std::vector<const UOp*> stack = {gate};
  while (!stack.empty()) {
    const UOp* uop = stack.back();
    stack.pop_back();
    const bool negated = uop->op() == Op::CMPNE && uop->src(1)->IsConstInt(1) && uop->src(0)->dtype() == DType::kBool;
    const UOp* less = negated ? uop->src(0) : uop;
    if (uop->op() == Op::AND) {
      stack.push_back(uop->src(0));
      stack.push_back(uop->src(1));
    } else if (less->op() == Op::CMPLT && less->src(1)->IsConst() && less->src(0)->dtype() == kIndexType) {
      const __int128 limit = less->src(1)->const_int();
      if (negated) {
        Learn(facts, less->src(0), limit, kFar);
      } else {
        Learn(facts, less->src(0), -kFar, limit - 1);
      }
    } else if (less->op() == Op::CMPLT && less->src(0)->IsConst() && less->src(1)->dtype() == kIndexType) {
      const __int128 limit = less->src(0)->const_int();
      if (negated) {
        Learn(facts, less->src(1), -kFar, limit);
      } else {
        Learn(facts, less->src(1), limit + 1, kFar);
      }
    }
  }
  return facts;
}

// The term of `form` on `node`, or null.
LinearForm::Term* TermOn(LinearForm& form, const UOp* node) {
  for (auto& term : form.terms) {
    if (term.node == node) return &term;
  }
  return nullptr;
}

// The interval of `index` under the facts: a fact that is a multiple of a part
// of the index's sum stands for that part.
Bounds NarrowedBounds(UOp* index, std::vector<Fact> facts) {
  LinearForm form = ToLinear(index);
  const Bounds exact = form.Range();
  if (exact.min < BoundsOf(kIndexType).min || exact.max > BoundsOf(kIndexType).max) return index->bounds();
  std::stable_sort(facts.begin(), facts.end(),
                   [](const Fact& a, const Fact& b) { return a.sum.terms.size() > b.sum.terms.size(); });
  Bounds narrowed{0, 0, true};
  for (const Fact& fact : facts) {
    LinearForm::Term* first = TermOn(form, fact.sum.terms[0].node);
    if (first == nullptr) continue;
    // In 128 bits: INT64_MIN / -1 has no place in 64.
    const __int128 known = fact.sum.terms[0].coefficient;
    const __int128 factor = first->coefficient / known;
    if (factor * known != first->coefficient || factor > kFar >> 7 || factor < -(kFar >> 7)) continue;
    const bool is_part = std::all_of(fact.sum.terms.begin(), fact.sum.terms.end(), [&](const auto& term) {
      const LinearForm::Term* mine = TermOn(form, term.node);
      return mine != nullptr && term.coefficient * factor == mine->coefficient;
    });
    if (!is_part) continue;
    const Bounds own = fact.sum.Range();
    const __int128 min = std::max(own.min, fact.min), max = std::min(own.max, fact.max);
    if (min > max) return index->bounds();  // the gate is never true, or the interval is not to be trusted
    narrowed.min += factor >= 0 ? min * factor : max * factor;
    narrowed.max += factor >= 0 ? max * factor : min * factor;
    std::erase_if(form.terms, [&](const auto& term) {
      return std::any_of(fact.sum.terms.begin(), fact.sum.terms.end(),
                         [&](const auto& known) { return known.node == term.node; });
    });
  }
  const Bounds rest = form.Range();
  return {narrowed.min + rest.min, narrowed.max + rest.max, true};
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
      const int64_t size = src[0]->src(0)->shape()[0];
      UOp* index = src[0]->src(1);
      UOp* gate = src.size() > 2 ? src[2] : nullptr;
      const Bounds bounds = gate == nullptr ? index->bounds() : NarrowedBounds(index, FactsFrom(gate));
      if (bounds.min < 0 || bounds.max >= size) {
        if (strict) {
          return MakeError(v1::OUT_OF_BOUNDS,
                           absl::StrCat("an index of a buffer of ", size,
                                        " elements cannot be proved in range, and `strict` forbids a guard"));
        }
        UOp* inside = And(graph, Not(graph, Lt(graph, index, Idx(graph, 0))), Lt(graph, index, Idx(graph, size)));
        gate = gate == nullptr ? inside : And(graph, gate, inside);
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
