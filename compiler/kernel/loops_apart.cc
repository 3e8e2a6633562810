#include "compiler/kernel/loops_apart.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "compiler/rules/facts.h"
#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

// Places are counted like digits: a loop that strides over all that the smaller ones reach together is a digit of
// its own. Loops whose sum the STORE's gate bounds are one digit together, which reaches no farther than the gate lets
// it. What is no loop, or is a loop whose iterations collide, is one block: nothing is known of it but a divisor of its
// values and how far they reach.
struct Digit {
  std::vector<UOp*> loops;
  __int128 stride, reach;
};

__int128 Magnitude(int64_t number) { return number < 0 ? -__int128{number} : __int128{number}; }

// The first of `digits`, which are sorted by stride, that is no digit beside the block; none if all are.
std::optional<size_t> FirstThatCollides(const std::vector<Digit>& digits, __int128 divisor, __int128 reach) {
  __int128 span = 1;  // places that all so far reach
  bool inside = divisor != 0;
  for (size_t i = 0; i < digits.size(); ++i) {
    // Those below the block's divisor stay below it all together, so that the block cannot make up for them.
    if (inside && digits[i].stride >= divisor) {
      inside = false;
      span += reach;
    }
    if (digits[i].stride < span) return i;
    span += digits[i].reach;
    if (inside && span > divisor) return i;
  }
  return std::nullopt;
}

// The loops of `condition` (their sum, by some factors, is less than a number) as one digit of `place`; none if it says
// something else, or its own loops do not count apart.
std::optional<Digit> BoundedDigit(UOp* condition, const LinearForm& place, const absl::flat_hash_set<UOp*>& loops) {
  if (condition->op() != Op::CMPLT || !condition->src(1)->IsConst()) return std::nullopt;
  LinearForm sum = ToLinear(condition->src(0));
  std::sort(sum.terms.begin(), sum.terms.end(),
            [](const LinearForm::Term& a, const LinearForm::Term& b) { return a.coefficient < b.coefficient; });
  const __int128 least_outside = __int128{condition->src(1)->const_int()} - sum.constant;
  if (sum.terms.empty() || least_outside < 1) return std::nullopt;
  Digit digit{{}, 0, 0};
  __int128 factor = 0, span = 1;
  for (const auto& [loop, coefficient] : sum.terms) {
    if (!loops.contains(loop) || coefficient < span) return std::nullopt;
    const auto term = std::find_if(place.terms.begin(), place.terms.end(),
                                   [loop = loop](const LinearForm::Term& other) { return other.node == loop; });
    if (digit.loops.empty()) factor = __int128{term->coefficient} / coefficient;
    if (factor == 0 || factor * coefficient != term->coefficient) return std::nullopt;
    digit.loops.push_back(loop);
    digit.stride = std::gcd(static_cast<int64_t>(digit.stride), coefficient);
    span += __int128{coefficient} * (loop->src(0)->const_int() - 1);
    if (span + std::max<__int128>(sum.constant, 0) > std::numeric_limits<int64_t>::max()) return std::nullopt;  // wraps
  }
  if (factor < 0) factor = -factor;
  digit.stride *= factor;
  digit.reach = factor * (std::min(span, least_outside) - 1);
  return digit;
}

bool IsNumbered(const UOp* loop) { return loop->src(0)->IsConst() && loop->src(0)->const_int() > 0; }

// Removes from `apart` the loops that `store` cannot tell from others.
void Check(UOp* store, const absl::flat_hash_set<UOp*>& lanes, absl::flat_hash_set<UOp*>& apart) {
  const LinearForm form = ToLinear(store->src(0)->src(1));
  absl::flat_hash_set<UOp*> digits_of;
  for (const auto& term : form.terms) {
    if (apart.contains(term.node) || lanes.contains(term.node)) digits_of.insert(term.node);
  }
  // A loop that is met within another term tells nothing by its own.
  for (const auto& term : form.terms) {
    if (digits_of.contains(term.node)) continue;
    for (UOp* uop : Toposort(term.node)) digits_of.erase(uop);
  }
  for (;;) {
    std::vector<Digit> digits;
    absl::flat_hash_set<UOp*> single = digits_of;
    if (store->src().size() > 2) {
      for (UOp* condition : ConjunctsOf(store->src(2)).parts) {
        std::optional<Digit> digit = BoundedDigit(condition, form, single);
        if (!digit.has_value()) continue;
        for (UOp* loop : digit->loops) single.erase(loop);
        digits.push_back(*std::move(digit));
      }
    }
    __int128 divisor = 0, reach = 0;
    for (const auto& [node, coefficient] : form.terms) {
      const __int128 stride = Magnitude(coefficient);
      const Bounds& bounds = node->bounds();
      if (single.contains(node)) digits.push_back({{node}, stride, stride * (node->src(0)->const_int() - 1)});
      if (digits_of.contains(node)) continue;
      divisor = std::gcd(static_cast<uint64_t>(divisor), static_cast<uint64_t>(stride));
      const __int128 width = bounds.max - bounds.min;
      // Beyond any buffer it does not matter how far.
      reach += stride * std::min<__int128>(width, std::numeric_limits<int64_t>::max());
      reach = std::min<__int128>(reach, __int128{1} << 100);
    }
    std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) { return a.stride < b.stride; });
    const std::optional<size_t> collides = FirstThatCollides(digits, divisor, reach);
    if (!collides.has_value()) break;
    for (UOp* loop : digits[*collides].loops) digits_of.erase(loop);
  }
  absl::erase_if(apart, [&](UOp* loop) { return loop->src(0)->const_int() > 1 && !digits_of.contains(loop); });
}

}  // namespace

std::vector<UOp*> LoopsApart(UOp* sink, const std::vector<UOp*>& loops) {
  absl::flat_hash_set<UOp*> apart, lanes;
  absl::flat_hash_set<const UOp*> written;
  std::vector<UOp*> stores;
  for (UOp* loop : loops) {
    if (IsNumbered(loop)) apart.insert(loop);
  }
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() == Op::RANGE && IsNumbered(uop)) {
      const AxisType type = uop->arg_as<RangeArg>().type;
      if (type == AxisType::kUpcast) lanes.insert(uop);
    }
    if (uop->op() != Op::STORE || uop->src(0)->op() != Op::INDEX) continue;
    const UOp* storage = uop->src(0)->src(0);
    while (storage->op() == Op::AFTER) storage = storage->src(0);
    // Two STOREs of one iteration may meet those of another.
    if (!written.insert(storage).second) return {};
    stores.push_back(uop);
  }
  for (UOp* store : stores) Check(store, lanes, apart);
  std::vector<UOp*> found;
  std::copy_if(loops.begin(), loops.end(), std::back_inserter(found), [&](UOp* loop) { return apart.contains(loop); });
  return found;
}

}  // namespace kiln::compiler
