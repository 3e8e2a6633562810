#include "compiler/ir/polynomial.h"

#include <algorithm>

namespace kiln::compiler {
namespace {

constexpr size_t kMaxTerms = 16;
constexpr size_t kMaxDegree = 6;

using Atoms = absl::InlinedVector<UOp*, 3>;

bool ById(const UOp* a, const UOp* b) { return a->id() < b->id(); }

// Graded, then lexicographic: an order that multiplication keeps, so that
// division comes to an end.
bool Before(const Atoms& a, const Atoms& b) {
  if (a.size() != b.size()) return a.size() > b.size();
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), ById);
}

// a / b, if every atom of b is in a.
std::optional<Atoms> Without(const Atoms& a, const Atoms& b) {
  Atoms rest;
  if (!std::includes(a.begin(), a.end(), b.begin(), b.end(), ById)) return std::nullopt;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(rest), ById);
  return rest;
}

}  // namespace

Polynomial::Polynomial(int64_t constant) {
  if (constant != 0) terms_.push_back({{}, constant});
}

Polynomial Polynomial::Atom(UOp* atom) {
  Polynomial result;
  result.terms_.push_back({{atom}, 1});
  return result;
}

Polynomial Polynomial::Inexact() {
  Polynomial result;
  result.exact_ = false;
  return result;
}

std::optional<int64_t> Polynomial::constant() const {
  if (!exact_ || terms_.size() > 1) return std::nullopt;
  if (terms_.empty()) return 0;
  if (!terms_[0].atoms.empty()) return std::nullopt;
  return terms_[0].coefficient;
}

void Polynomial::Limit() {
  const bool high =
      std::any_of(terms_.begin(), terms_.end(), [](const Term& t) { return t.atoms.size() > kMaxDegree; });
  if (!exact_ || high || terms_.size() > kMaxTerms) *this = Inexact();
}

void Polynomial::Add(Term term) {
  const auto at = std::lower_bound(terms_.begin(), terms_.end(), term,
                                   [](const Term& a, const Term& b) { return Before(a.atoms, b.atoms); });
  if (at == terms_.end() || at->atoms != term.atoms) {
    terms_.insert(at, std::move(term));
  } else if (__builtin_add_overflow(at->coefficient, term.coefficient, &at->coefficient)) {
    exact_ = false;
  } else if (at->coefficient == 0) {
    terms_.erase(at);
  }
}

Polynomial Polynomial::operator+(const Polynomial& other) const {
  if (!exact_ || !other.exact_) return Inexact();
  Polynomial result = *this;
  for (const Term& term : other.terms_) result.Add(term);
  result.Limit();
  return result;
}

Polynomial Polynomial::operator*(const Polynomial& other) const {
  if (!exact_ || !other.exact_) return Inexact();
  Polynomial result;
  for (const Term& a : terms_) {
    for (const Term& b : other.terms_) {
      Term product;
      std::merge(a.atoms.begin(), a.atoms.end(), b.atoms.begin(), b.atoms.end(), std::back_inserter(product.atoms),
                 ById);
      if (__builtin_mul_overflow(a.coefficient, b.coefficient, &product.coefficient)) return Inexact();
      result.Add(std::move(product));
      if (!result.exact_ || result.terms_.size() > 2 * kMaxTerms) return Inexact();
    }
  }
  result.Limit();
  return result;
}

void Polynomial::Divide(const Polynomial& divisor, Polynomial& quotient, Polynomial& rest) const {
  quotient = Polynomial();
  rest = Polynomial();
  if (!exact_ || !divisor.exact_ || divisor.terms_.empty()) {
    quotient = Inexact();
    return;
  }
  const Term& lead = divisor.terms_[0];
  Polynomial left = *this;
  // Each iteration either moves the leading term away or cancels it.
  for (size_t iteration = 0; !left.terms_.empty(); ++iteration) {
    if (iteration > 4 * kMaxTerms) {
      quotient = Inexact();
      return;
    }
    const Term top = left.terms_[0];
    std::optional<Atoms> atoms;
    if (lead.coefficient > 0) atoms = Without(top.atoms, lead.atoms);
    int64_t times = atoms.has_value() ? top.coefficient / lead.coefficient : 0;
    // A constant leaves a rest of 0 or more: -1 = -1 * 4 + 3.
    if (atoms.has_value() && top.atoms.empty() && top.coefficient % lead.coefficient < 0) --times;
    if (times == 0) {
      left.terms_.erase(left.terms_.begin());
      rest.Add(top);
      continue;
    }
    Polynomial part;
    part.terms_.push_back({*atoms, times});
    quotient = quotient + part;
    left = left - part * divisor;
    if (!left.terms_.empty() && left.terms_[0].atoms == top.atoms) {  // what a coefficient leaves
      rest.Add(left.terms_[0]);
      left.terms_.erase(left.terms_.begin());
    }
  }
  if (!left.exact_) quotient = Inexact();  // it has no terms, and is not 0
  quotient.Limit();
  rest.Limit();
}

std::optional<Polynomial> Polynomial::DividedBy(const Polynomial& divisor) const {
  Polynomial quotient, rest;
  Divide(divisor, quotient, rest);
  if (!quotient.exact_ || !rest.exact_ || !rest.terms_.empty()) return std::nullopt;
  return quotient;
}

std::optional<Bounds> Polynomial::Range() const {
  if (!exact_) return std::nullopt;
  constexpr __int128 kFar = __int128{1} << 63;
  const auto far = [](__int128 x) { return x >= kFar || x < -kFar; };
  Bounds sum{0, 0, true};
  for (const Term& term : terms_) {
    __int128 low = term.coefficient, high = term.coefficient;
    for (const UOp* atom : term.atoms) {
      const Bounds& bounds = atom->bounds();
      if (!bounds.known || far(bounds.min) || far(bounds.max)) return std::nullopt;
      const __int128 corners[] = {low * bounds.min, low * bounds.max, high * bounds.min, high * bounds.max};
      low = *std::min_element(corners, corners + 4);
      high = *std::max_element(corners, corners + 4);
      if (far(low) || far(high)) return std::nullopt;
    }
    sum.min += low;
    sum.max += high;
    if (far(sum.min) || far(sum.max)) return std::nullopt;
  }
  return sum;
}

bool Polynomial::Split(const UOp* atom, Polynomial& factor, Polynomial& rest) const {
  factor = rest = Polynomial();
  for (const Term& term : terms_) {
    const auto times = std::count(term.atoms.begin(), term.atoms.end(), atom);
    if (times > 1) return false;
    Term without = term;
    without.atoms.erase(std::remove(without.atoms.begin(), without.atoms.end(), atom), without.atoms.end());
    (times == 1 ? factor : rest).Add(std::move(without));
  }
  return exact_;
}

}  // namespace kiln::compiler
