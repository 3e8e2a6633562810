#include "compiler/kernel/ranges.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <utility>

#include "compiler/rules/linear.h"

namespace kiln::compiler {
namespace {

bool Before(const UOp* a, const UOp* b) { return a->id() < b->id(); }

void Insert(RangeSet& set, UOp* range) {
  auto at = std::lower_bound(set.begin(), set.end(), range, Before);
  if (at == set.end() || *at != range) set.insert(at, range);
}

// The loops that `uop` closes: its RANGE sources behind the first.
absl::Span<UOp* const> Closes(const UOp* uop) {
  if (uop->op() == Op::END || uop->op() == Op::REDUCE) return uop->src().subspan(1);
  return {};
}

bool Reaches(UOp* root, const UOp* uop) {
  const std::vector<UOp*> order = Toposort(root);
  return std::find(order.begin(), order.end(), uop) != order.end();
}

// Factors of a step or a size, and products of them, that are looked at: real ones have few, and a client may write a
// power by squares.
constexpr int kMaxFactors = 32;

// A number times sizes: values that are the same in all iterations of a run, and never negative.
struct Monomial {
  int64_t coefficient = 1;
  std::vector<const UOp*> atoms;  // ascending by id
};

bool IsSize(UOp* uop) {
  if (!uop->bounds().known || uop->bounds().min < 0) return false;
  const std::vector<UOp*> order = Toposort(uop);
  return std::none_of(order.begin(), order.end(),
                      [](const UOp* node) { return node->op() == Op::RANGE || node->op() == Op::LOAD; });
}

// coefficient * node, without the factor `range`, if the node is a product of that and of sizes; of sizes alone if
// `range` is null.
std::optional<Monomial> MonomialOf(int64_t coefficient, UOp* node, const UOp* range) {
  Monomial made{coefficient, {}};
  bool found = range == nullptr;
  std::vector<UOp*> factors = {node};
  for (int seen = 0; !factors.empty(); ++seen) {
    if (seen == kMaxFactors) return std::nullopt;
    UOp* factor = factors.back();
    factors.pop_back();
    if (factor == range && !found) {
      found = true;
    } else if (factor->op() == Op::MUL) {
      factors.insert(factors.end(), factor->src().begin(), factor->src().end());
    } else if (factor->IsConst() && factor->const_int() >= 1) {
      if (__builtin_mul_overflow(made.coefficient, factor->const_int(), &made.coefficient)) return std::nullopt;
    } else if (IsSize(factor)) {
      made.atoms.push_back(factor);
    } else {
      return std::nullopt;
    }
  }
  if (!found) return std::nullopt;
  std::sort(made.atoms.begin(), made.atoms.end(), Before);
  return made;
}

// How far `index` moves with each iteration of `range`, either way; none if that is no such value, or nothing.
std::optional<Monomial> StepAlong(const LinearForm& index, UOp* range) {
  std::optional<Monomial> step;
  for (const auto& term : index.terms) {
    if (term.node != range && !Reaches(term.node, range)) continue;
    // One term alone: of two, one may take back the other's step.
    if (step.has_value() || term.coefficient == std::numeric_limits<int64_t>::min()) return std::nullopt;
    step = MonomialOf(std::abs(term.coefficient), term.node, range);
    if (!step.has_value()) return std::nullopt;
  }
  return step;
}

// The iterations of `range`: a sum of sizes is one of its own.
Monomial IterationsOf(const UOp* range) {
  const LinearForm size = ToLinear(range->src(0));
  if (size.terms.empty()) return {size.constant, {}};
  std::optional<Monomial> product;
  if (size.terms.size() == 1 && size.constant == 0 && size.terms[0].coefficient >= 1)
    product = MonomialOf(size.terms[0].coefficient, size.terms[0].node, nullptr);
  return product.has_value() ? *product : Monomial{1, {range->src(0)}};
}

// Whether `step` is at least smaller_step * size, for all values of the atoms.
bool StepsOver(const Monomial& step, const Monomial& smaller_step, const Monomial& size) {
  Monomial reach = smaller_step;
  if (__builtin_mul_overflow(reach.coefficient, size.coefficient, &reach.coefficient)) return false;
  reach.atoms.insert(reach.atoms.end(), size.atoms.begin(), size.atoms.end());
  std::sort(reach.atoms.begin(), reach.atoms.end(), Before);
  return step.coefficient >= reach.coefficient &&
         std::includes(step.atoms.begin(), step.atoms.end(), reach.atoms.begin(), reach.atoms.end(), Before);
}

}  // namespace

absl::flat_hash_map<UOp*, RangeSet> OpenRanges(UOp* sink) {
  absl::flat_hash_map<UOp*, RangeSet> open;
  for (UOp* uop : Toposort(sink)) {
    RangeSet mine;
    for (UOp* source : uop->src()) {
      for (UOp* range : open[source]) Insert(mine, range);
    }
    for (UOp* range : Closes(uop)) mine.erase(std::remove(mine.begin(), mine.end(), range), mine.end());
    if (uop->op() == Op::RANGE) Insert(mine, uop);
    open[uop] = std::move(mine);
  }
  return open;
}

std::optional<int64_t> StrideIn(UOp* index, UOp* range) {
  int64_t stride = 0;
  for (const auto& term : ToLinear(index).terms) {
    if (term.node == range) {
      stride = term.coefficient;
      continue;
    }
    if (Reaches(term.node, range)) return std::nullopt;
  }
  return stride;
}

bool CountsApart(UOp* index, absl::Span<UOp* const> loops) {
  struct Digit {
    Monomial step, size;
  };
  const LinearForm form = ToLinear(index);
  std::vector<Digit> digits;
  std::vector<const UOp*> sizes;  // where one of them is 0 there is no iteration
  for (UOp* loop : loops) {
    if (loop->src(0)->IsConstInt(1)) continue;
    const std::optional<Monomial> step = StepAlong(form, loop);
    if (!step.has_value()) return false;
    digits.push_back({*step, IterationsOf(loop)});
    const std::vector<const UOp*>& atoms = digits.back().size.atoms;
    sizes.insert(sizes.end(), atoms.begin(), atoms.end());
  }
  for (const Digit& digit : digits) {
    for (const UOp* atom : digit.step.atoms) {
      if (atom->bounds().min < 1 && std::find(sizes.begin(), sizes.end(), atom) == sizes.end()) return false;
    }
  }
  std::sort(digits.begin(), digits.end(), [](const Digit& a, const Digit& b) {
    return std::pair(a.step.atoms.size(), a.step.coefficient) < std::pair(b.step.atoms.size(), b.step.coefficient);
  });
  for (size_t i = 1; i < digits.size(); ++i) {
    if (!StepsOver(digits[i].step, digits[i - 1].step, digits[i - 1].size)) return false;
  }
  return true;
}

std::vector<UOp*> OutputRanges(const UOp* sink) {
  const UOp* body = sink->src(0);
  if (body->op() != Op::END) return {};
  return {body->src().begin() + 1, body->src().end()};
}

std::vector<UOp*> OuterReduces(UOp* sink) {
  std::vector<UOp*> reduces;
  for (UOp* uop : Toposort(sink)) {
    if (uop->op() != Op::END || uop == sink->src(0)) continue;
    if (uop->src(1)->arg_as<RangeArg>().type == AxisType::kReduce) reduces.push_back(uop);
  }
  return reduces;
}

int64_t LargestDivisor(int64_t n, int64_t at_most) {
  for (int64_t d = std::min(n, at_most); d > 1; --d) {
    if (n % d == 0) return d;
  }
  return 1;
}

}  // namespace kiln::compiler
