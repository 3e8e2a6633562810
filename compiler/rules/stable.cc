#include "compiler/rules/stable.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "compiler/interp/scalar.h"
#include "compiler/rewrite/formula.h"
#include "compiler/rewrite/rewrite.h"
#include "compiler/rules/product_factors.h"

namespace kiln::compiler {
namespace {

// Of a longer sum only so many terms are looked at.
constexpr size_t kMaxTerms = 8;

bool IsFloatNode(const UOp* uop) { return IsFloat(uop->dtype()); }

// An exponential: never below 0, as x + 1 is then never 0.
bool IsExponential(const UOp* x) {
  while (x->op() == Op::CAST) x = x->src(0);
  if (x->op() == Op::EXP2) return true;
  if (x->op() != Op::POW) return false;
  const UOp* base = x->src(0);
  while (base->op() == Op::EXPAND || base->op() == Op::RESHAPE) base = base->src(0);
  return base->IsConst() && FloatValue(base->dtype(), base->arg_as<ConstArg>().bits) > 0;
}

// -- Products

// A factor that becomes infinite with x, and what it is of x: x + more. `x` is null if
// it is none.
struct Numerator {
  UOp* x = nullptr;  // in the factor's dtype
  int more = 0;
};

Numerator NumeratorOf(const ProductFactor& factor, UOp* x) {
  if (factor.place == ProductFactor::kBelow) {  // divided by 1 / (x + 1)
    const Inverse inverse = InverseOf(factor.uop);
    return inverse.power == 1 && inverse.x == x ? Numerator{x, 1} : Numerator{};
  }
  if (factor.place != ProductFactor::kAbove) return {};
  if (SameBeforeCasts(factor.uop, x)) return {factor.uop, 0};
  // Of an exponential alone: logarithms are made of (x - 1) / (1 + x), of an x that is near 1.
  UOp* less = PlusOne(factor.uop);
  return less != nullptr && SameBeforeCasts(less, x) && IsExponential(x) ? Numerator{less, -1} : Numerator{};
}

Inverse InverseAt(const ProductFactor& factor) {
  switch (factor.place) {
    case ProductFactor::kAbove: return InverseOf(factor.uop);
    case ProductFactor::kDivisor: return InverseBy(factor.uop);
    case ProductFactor::kBelow: return {LessOne(factor.uop), factor.uop, 1};
  }
  return {};
}

// The two factors as ones that stay finite: for x well beyond 1, (x + more) * t is
// 1 - (1 - more) * t, as a product with 1; below, it is precise as it stands.
UOp* StablePair(Graph& graph, const ProductTree& product, const ProductFactor& factor, const Inverse& inverse,
                const ProductFactor& numerator, const Numerator& of) {
  const Formula x(graph, inverse.x), sum(graph, inverse.sum), before(graph, numerator.uop);
  const Formula t(graph, graph.Make(Op::RECIPROCAL, {inverse.sum}));
  const Formula beyond = x.Like(of.more < 0 ? 3 : 1) < x;
  Formula rest = factor.place == ProductFactor::kBelow ? Where(beyond, sum.Like(1), sum) : Where(beyond, t.Like(1), t);
  for (int power = 1; power < inverse.power; ++power) rest = rest * t;
  const auto finite = [&] {
    if (of.more == 1) return before.Like(1);
    // In the numerator's own dtype.
    const Formula own = of.x == inverse.x ? t : 1 / (Formula(graph, of.x) + 1);
    return of.more == 0 ? 1 - own : 1 - own * 2;
  };
  return product.With(graph, {numerator, Where(beyond, finite(), before).uop()}, {factor, rest.uop()});
}

UOp* StableProduct(const Match& m, Graph& graph) {
  const ProductTree product(m.root());
  for (const ProductFactor& factor : product.factors()) {
    const Inverse inverse = InverseAt(factor);
    if (inverse.x == nullptr || inverse.x->shape() != factor.uop->shape()) continue;
    for (const ProductFactor& numerator : product.factors()) {
      const Numerator of = NumeratorOf(numerator, inverse.x);
      if (of.x == nullptr || numerator.uop->shape() != factor.uop->shape()) continue;
      return StablePair(graph, product, factor, inverse, numerator, of);
    }
  }
  return nullptr;
}

// -- Sums

// `all` without one `part`, or a list that no product has.
std::vector<UOp*> Without(std::vector<UOp*> all, UOp* part) {
  const auto found = std::find(all.begin(), all.end(), part);
  if (found == all.end()) return {nullptr};
  all.erase(found);
  return all;
}

// What 1 + ratio is, where q = p * ratio and the ratio is -x / (1 + x) or
// -(x - 1) / (x + 1): 1 or 2 times 1 / (1 + x). `sum` is null if it is neither.
struct Remainder {
  UOp* sum = nullptr;
  int times = 0;
};

Remainder RemainderOf(const FactorLists& p, const FactorLists& q) {
  if (std::fabs(p.number + q.number) > std::fabs(p.number) * 0x1p-50 || p.number == 0) return {};
  for (UOp* sum : p.below) {
    UOp* x = LessOne(sum);
    if (x == nullptr || !IsExponential(x) || Without(q.below, sum) != p.below) continue;
    for (UOp* above : q.above) {
      const bool less = above != x && PlusOne(above) == x;
      if ((above == x || less) && Without(q.above, above) == p.above) return {sum, less ? 2 : 1};
    }
  }
  return {};
}

// Whether both are one product over 1 + an exponential, but for a number.
bool AreAlike(const FactorLists& p, const FactorLists& q) {
  return p.above == q.above && p.below == q.below && p.number != 0 &&
         std::any_of(p.below.begin(), p.below.end(), [](UOp* sum) {
           const UOp* x = LessOne(sum);
           return x != nullptr && IsExponential(x);
         });
}

void Terms(UOp* uop, std::vector<UOp*>& terms) {
  std::vector<UOp*> stack = {uop};
  while (!stack.empty()) {
    UOp* top = stack.back();
    stack.pop_back();
    if (top->op() == Op::ADD && stack.size() + terms.size() + 2 <= kMaxTerms) {
      stack.insert(stack.end(), top->src().rbegin(), top->src().rend());
    } else {
      terms.push_back(top);
    }
  }
}

// p - p * x / (1 + x), which is what a quotient's rule gives x: infinite where it is not
// one product with x. So are two of these that are added, which become one.
UOp* StableSum(const Match& m, Graph& graph) {
  std::vector<UOp*> terms;
  Terms(m.root(), terms);
  std::vector<std::optional<FactorLists>> factors;
  for (UOp* term : terms) factors.push_back(FactorListsOf(term));
  for (size_t p = 0; p < terms.size(); ++p) {
    if (!factors[p].has_value() || factors[p]->below.empty()) continue;
    for (size_t q = 0; q < terms.size(); ++q) {
      if (q == p || !factors[q].has_value()) continue;
      const Formula term(graph, terms[p]);
      if (AreAlike(*factors[p], *factors[q])) {
        terms[p] = (term * (1 + factors[q]->number / factors[p]->number)).uop();
      } else {
        const Remainder remainder = RemainderOf(*factors[p], *factors[q]);
        if (remainder.sum == nullptr) continue;
        const Formula t(graph, graph.Make(Op::RECIPROCAL, {remainder.sum}));
        terms[p] = (term * (remainder.times == 1 ? t : t * remainder.times)).uop();
      }
      terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(q));
      UOp* sum = terms[0];
      for (size_t i = 1; i < terms.size(); ++i) sum = graph.Make(Op::ADD, {sum, terms[i]});
      return sum;
    }
  }
  return nullptr;
}

const RuleSet& ProductRules() {
  static const RuleSet& rules = *new RuleSet({
      RULE("x * (1 / (1 + x)) -> where(1 < x, 1 - 1 / (1 + x), x) * where(1 < x, 1, 1 / (1 + x))",
           Pattern::Any(Op::MUL).If(IsFloatNode), StableProduct),
      RULE("x / (1 + x) -> where(1 < x, 1 - 1 / (1 + x), x) * where(1 < x, 1, 1 / (1 + x))",
           Pattern::Any(Op::FDIV).If(IsFloatNode), StableProduct),
  });
  return rules;
}

const RuleSet& SumRules() {
  static const RuleSet& rules = *new RuleSet({
      RULE("p / (1 + x) - p / (1 + x) * x / (1 + x) -> p / (1 + x) * (1 / (1 + x)), and a * p + b * p -> (a + b) * p",
           Pattern::Any(Op::ADD).If(IsFloatNode), StableSum),
  });
  return rules;
}

}  // namespace

UOp* MakeStable(Graph& graph, UOp* root) {
  // Of the terms of a sum, products leave only what is finite; so sums come first.
  return GraphRewrite(GraphRewrite(root, SumRules(), graph), ProductRules(), graph);
}

}  // namespace kiln::compiler
