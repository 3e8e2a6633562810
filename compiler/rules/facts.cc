#include "compiler/rules/facts.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

constexpr __int128 kFar = __int128{1} << 70;
// Of one condition; what more it says is not looked at.
constexpr size_t kMaxFacts = 16;
constexpr size_t kMaxParts = 256;  // ANDs, ORs and NOTs among them

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

// a < b, or a >= b, where one of the two is a constant.
void LearnOrder(std::vector<Fact>& facts, const UOp* less, bool holds) {
  if (less->src(1)->IsConst()) {
    const __int128 limit = less->src(1)->const_int();
    holds ? Learn(facts, less->src(0), -kFar, limit - 1) : Learn(facts, less->src(0), limit, kFar);
  } else if (less->src(0)->IsConst()) {
    const __int128 limit = less->src(0)->const_int();
    holds ? Learn(facts, less->src(1), limit + 1, kFar) : Learn(facts, less->src(1), -kFar, limit);
  }
}

// The term of `form` on `node`, or null.
LinearForm::Term* TermOn(LinearForm& form, const UOp* node) {
  for (auto& term : form.terms) {
    if (term.node == node) return &term;
  }
  return nullptr;
}

}  // namespace

Conjuncts ConjunctsOf(UOp* condition) {
  Conjuncts found;
  std::vector<UOp*> stack = {condition};
  absl::flat_hash_set<UOp*> seen = {condition};
  while (!stack.empty()) {
    UOp* uop = stack.back();
    stack.pop_back();
    if (uop->op() != Op::AND) {
      found.parts.push_back(uop);
      continue;
    }
    for (UOp* side : {uop->src(1), uop->src(0)}) {
      if (seen.size() == kMaxParts) found.complete &= seen.contains(side);
      if (seen.size() < kMaxParts && seen.insert(side).second) stack.push_back(side);
    }
  }
  return found;
}

std::vector<Fact> FactsFrom(const UOp* condition, bool holds) {
  struct Literal {
    const UOp* condition;
    bool holds;
  };
  std::vector<Fact> facts;
  std::vector<Literal> stack = {{condition, holds}};
  // A condition that doubles itself often has more parts than anyone could list.
  for (size_t parts = 0; !stack.empty() && facts.size() < kMaxFacts && parts < kMaxParts; ++parts) {
    const auto [uop, true_here] = stack.back();
    stack.pop_back();
    if (uop->op() == Op::CMPNE && uop->src(0)->dtype() == DType::kBool && uop->src(1)->IsConst()) {
      stack.push_back({uop->src(0), true_here != (uop->src(1)->const_int() != 0)});
    } else if (uop->op() == (true_here ? Op::AND : Op::OR) && uop->dtype() == DType::kBool) {
      stack.push_back({uop->src(1), true_here});
      stack.push_back({uop->src(0), true_here});
    } else if (uop->op() == Op::CMPNE && !true_here && uop->src(1)->IsConst() && uop->src(0)->dtype() == kIndexType) {
      Learn(facts, uop->src(0), uop->src(1)->const_int(), uop->src(1)->const_int());
    } else if (uop->op() == Op::CMPLT && uop->src(0)->dtype() == kIndexType) {
      LearnOrder(facts, uop, true_here);
    }
  }
  return facts;
}

Bounds NarrowedBounds(UOp* index, std::vector<Fact> facts) {
  LinearForm form = ToLinear(index);
  // A fact that is a multiple of a part of the index's sum stands for that part.
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
                         [&](const auto& of_fact) { return of_fact.node == term.node; });
    });
  }
  const Bounds rest = form.Range();
  narrowed = {narrowed.min + rest.min, narrowed.max + rest.max, true};
  // The form is the index modulo 2^64: exactly that, if it cannot wrap there.
  const Bounds fits = BoundsOf(kIndexType);
  return narrowed.min < fits.min || narrowed.max > fits.max ? index->bounds() : narrowed;
}

}  // namespace kiln::compiler
