#include "compiler/opt/factor_moves.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace kiln::compiler {
namespace {

constexpr int64_t kMaxOfWindow = int64_t{1} << 30;

using Quotients = std::map<int64_t, int64_t>;  // sum of n / first * second

// A loop as a digit of what counts the iterations of several.
struct Digit {
  int64_t inner, size;
  bool first;  // nothing is above it
  bool reduced;
};
using Digits = std::vector<std::pair<UOp*, Digit>>;

void AddDigits(Digits& digits, absl::Span<UOp* const> loops, bool reduced) {
  int64_t inner = 1;
  for (size_t k = loops.size(); k-- > 0;) {
    const int64_t size = loops[k]->src(0)->const_int();
    digits.emplace_back(loops[k], Digit{inner, size, k == 0, reduced});
    inner *= size;
  }
}

bool DependsOn(UOp* uop, const Digits& digits) {
  const std::vector<UOp*> order = Toposort(uop);
  return std::any_of(digits.begin(), digits.end(), [&](const auto& digit) {
    return std::find(order.begin(), order.end(), digit.first) != order.end();
  });
}

// `uop` as quotients of a loop's own iterations, and that loop.
struct OfLoop {
  UOp* loop;
  Quotients quotients;
};
std::optional<OfLoop> OfLoopIn(UOp* uop) {
  if (uop->op() == Op::RANGE) return OfLoop{uop, {{1, 1}}};
  const bool divides = uop->op() == Op::FLOORDIV || uop->op() == Op::FLOORMOD;
  if (!divides || !uop->src(1)->IsConst() || uop->src(1)->const_int() < 1) return std::nullopt;
  const auto divided = OfLoopIn(uop->src(0));
  if (!divided.has_value() || divided->quotients.size() != 1 || divided->quotients.begin()->second != 1)
    return std::nullopt;
  const int64_t every = divided->quotients.begin()->first, by = uop->src(1)->const_int();
  if (every > kMaxOfWindow || by > kMaxOfWindow) return std::nullopt;
  if (uop->op() == Op::FLOORDIV) return OfLoop{divided->loop, {{every * by, 1}}};
  return OfLoop{divided->loop, {{every, 1}, {every * by, -by}}};
}

// Adds loop / every * by to the quotients of what counts it.
bool AddQuotient(Quotients& sum, const Digit& digit, int64_t every, int64_t by) {
  if (every >= digit.size) return true;
  if (digit.size % every != 0 && !digit.first) return false;
  sum[digit.inner * every] += by;
  if (!digit.first) sum[digit.inner * digit.size] -= digit.size / every * by;
  return true;
}

void Sort(LinearForm& form) {
  std::sort(form.terms.begin(), form.terms.end(),
            [](const auto& a, const auto& b) { return a.node->id() < b.node->id(); });
}

bool SameTerms(const LinearForm& a, const LinearForm& b) {
  return std::equal(a.terms.begin(), a.terms.end(), b.terms.begin(), b.terms.end(),
                    [](const auto& x, const auto& y) { return x.node == y.node && x.coefficient == y.coefficient; });
}

void AddTo(LinearForm& form, const LinearForm& other, int64_t factor) {
  form.constant += factor * other.constant;
  for (const auto& [node, coefficient] : other.terms) {
    const auto same =
        std::find_if(form.terms.begin(), form.terms.end(), [n = node](const auto& t) { return t.node == n; });
    if (same == form.terms.end()) {
      form.terms.push_back({node, factor * coefficient});
    } else {
      same->coefficient += factor * coefficient;
    }
  }
  std::erase_if(form.terms, [](const auto& term) { return term.coefficient == 0; });
}

// Adds what the comparison `uop`, or that it is not so, says of a number.
bool AddCondition(std::vector<Condition>& conditions, UOp* uop) {
  bool holds = true;
  while (uop->op() == Op::CMPNE && uop->src(1)->IsConstInt(1)) {
    holds = !holds;
    uop = uop->src(0);
  }
  if (uop->op() != Op::CMPLT || uop->src(0)->dtype() != kIndexType) return false;
  LinearForm number = ToLinear(uop->src(0));
  AddTo(number, ToLinear(uop->src(1)), -1);  // is below 0
  Sort(number);
  if (number.terms.empty()) return false;
  const Bounds range = number.Range();
  if (range.min < -kMaxOfWindow || range.max > kMaxOfWindow) return false;
  auto least = static_cast<int64_t>(range.min), greatest = static_cast<int64_t>(range.max);
  holds ? greatest = std::min<int64_t>(greatest, -1) : least = std::max<int64_t>(least, 0);
  least -= number.constant;
  greatest -= number.constant;
  number.constant = 0;
  if (number.terms[0].coefficient < 0) {
    for (auto& term : number.terms) term.coefficient = -term.coefficient;
    std::swap(least, greatest);
    least = -least;
    greatest = -greatest;
  }
  for (Condition& other : conditions) {
    if (!SameTerms(other.number, number)) continue;
    other.least = std::max(other.least, least);
    other.greatest = std::min(other.greatest, greatest);
    return true;
  }
  conditions.push_back({number, least, greatest});
  return true;
}

}  // namespace

std::optional<FactorMoves> MovesOf(const LinearForm& number, absl::Span<UOp* const> rows,
                                   absl::Span<UOp* const> reduced) {
  Digits digits;
  AddDigits(digits, rows, false);
  AddDigits(digits, reduced, true);
  FactorMoves moves;
  moves.rest.constant = number.constant;
  std::array<Quotients, 2> quotients;
  for (const auto& term : number.terms) {
    const auto of = OfLoopIn(term.node);
    const auto digit = std::find_if(digits.begin(), digits.end(),
                                    [&](const auto& each) { return of.has_value() && each.first == of->loop; });
    if (digit == digits.end()) {
      if (DependsOn(term.node, digits)) return std::nullopt;
      moves.rest.terms.push_back(term);
      continue;
    }
    for (const auto& [every, by] : of->quotients) {
      if (!AddQuotient(quotients[digit->second.reduced], digit->second, every, by * term.coefficient))
        return std::nullopt;
    }
  }
  for (const bool is_reduced : {false, true}) {
    for (const auto& [every, by] : quotients[is_reduced]) {
      if (every == 1) {
        (is_reduced ? moves.step_k : moves.step) = by;
      } else if (by != 0) {
        moves.jumps.push_back({is_reduced, every, by});
      }
    }
  }
  return moves;
}

std::optional<std::vector<Condition>> ConditionsOf(std::vector<UOp*> gates) {
  std::vector<Condition> conditions;
  while (!gates.empty()) {
    UOp* uop = gates.back();
    gates.pop_back();
    if (uop->op() == Op::AND) {
      gates.insert(gates.end(), {uop->src(1), uop->src(0)});
    } else if (!AddCondition(conditions, uop)) {
      return std::nullopt;
    }
  }
  const bool some = std::all_of(conditions.begin(), conditions.end(),
                                [](const Condition& condition) { return condition.least <= condition.greatest; });
  return some ? std::optional(conditions) : std::nullopt;
}

// place = factor * number + the rest, where the number is between its bounds: that bounds it closer than its loops do.
bool StaysInside(LinearForm place, absl::Span<const Condition> conditions, int64_t size) {
  __int128 least = 0, greatest = 0;
  for (const Condition& condition : conditions) {
    for (const auto& [node, coefficient] : condition.number.terms) {
      const auto same =
          std::find_if(place.terms.begin(), place.terms.end(), [n = node](const auto& term) { return term.node == n; });
      if (same == place.terms.end() || same->coefficient % coefficient != 0) continue;
      const int64_t factor = same->coefficient / coefficient;
      AddTo(place, condition.number, -factor);
      const __int128 a = __int128{factor} * condition.least, b = __int128{factor} * condition.greatest;
      least += std::min(a, b);
      greatest += std::max(a, b);
      break;
    }
  }
  const Bounds range = place.Range();
  return least + range.min >= 0 && greatest + range.max < size;
}

}  // namespace kiln::compiler
