#include "compiler/rules/stable.h"

#include <algorithm>
#include <vector>

#include "compiler/rules/formula.h"

namespace kiln::compiler {
namespace {

// Of a longer product only so many factors are looked at.
constexpr size_t kMostFactors = 16;

bool IsOne(UOp* uop) {
  while (uop->op() == Op::EXPAND || uop->op() == Op::RESHAPE) uop = uop->src(0);
  Match match;
  return Number(1).Matches(uop, match);
}

// x of x + 1, or null.
UOp* LessOne(UOp* sum) {
  if (sum->op() != Op::ADD) return nullptr;
  if (IsOne(sum->src(1))) return sum->src(0);
  return IsOne(sum->src(0)) ? sum->src(1) : nullptr;
}

// The factor 1 / (x + 1)^power, power up to 3; `x` is null if it is none.
struct Inverse {
  UOp* x = nullptr;
  UOp* sum = nullptr;  // x + 1
  int power = 0;
};

Inverse InverseOf(UOp* factor) {
  UOp* below = factor->op() == Op::RECIPROCAL                      ? factor->src(0)
               : factor->op() == Op::FDIV && IsOne(factor->src(0)) ? factor->src(1)
                                                                   : nullptr;
  if (below == nullptr) return {};
  int power = 1;
  // (s * s) * s or s * (s * s)
  if (below->op() == Op::MUL) {
    UOp* a = below->src(0);
    UOp* b = below->src(1);
    if (a->op() == Op::MUL) std::swap(a, b);
    if (b->op() == Op::MUL) {
      if (b->src(0) != a || b->src(1) != a) return {};
      power = 3;
    } else {
      if (a != b) return {};
      power = 2;
    }
    below = a;
  }
  return {LessOne(below), below, power};
}

// The two factors as ones that stay finite: for x beyond 1, x * t is 1 - t, as a
// product with 1; below, it is precise as it stands.
struct Pair {
  UOp* instead_of_x;
  UOp* instead_of_inverse;
};

Pair Stable(Graph& graph, const Inverse& inverse) {
  const Formula x(graph, inverse.x);
  const Formula t(graph, graph.Make(Op::RECIPROCAL, {inverse.sum}));
  const Formula beyond = x.Like(1) < x;
  Formula rest = Where(beyond, t.Like(1), t);
  for (int power = 1; power < inverse.power; ++power) rest = rest * t;
  return {Where(beyond, 1 - t, x).uop(), rest.uop()};
}

bool IsFloatNode(const UOp* uop) { return IsFloat(uop->dtype()); }

// A product as a tree: its MULs, and the factors that are none.
class Product {
 public:
  explicit Product(UOp* root) : root_(root) {
    std::vector<UOp*> stack = {root};
    while (!stack.empty() && factors_.size() + stack.size() < kMostFactors) {
      UOp* uop = stack.back();
      stack.pop_back();
      if (uop->op() == Op::MUL) {
        muls_.push_back(uop);
        stack.insert(stack.end(), uop->src().begin(), uop->src().end());
      } else {
        factors_.push_back(uop);
      }
    }
    factors_.insert(factors_.end(), stack.begin(), stack.end());
  }

  const std::vector<UOp*>& factors() const { return factors_; }
  bool Has(UOp* factor) const { return std::find(factors_.begin(), factors_.end(), factor) != factors_.end(); }

  // The same product with one occurrence of each of two factors replaced.
  UOp* With(Graph& graph, UOp* a, UOp* instead_of_a, UOp* b, UOp* instead_of_b) const {
    return Rebuild(graph, root_, a, instead_of_a, b, instead_of_b);
  }

 private:
  // As deep as there are MULs: fewer than kMostFactors. A factor that has been
  // replaced is null from then on.
  UOp* Rebuild(Graph& graph, UOp* uop, UOp*& a, UOp* instead_of_a, UOp*& b, UOp* instead_of_b) const {
    if (uop == a) {
      a = nullptr;
      return instead_of_a;
    }
    if (uop == b) {
      b = nullptr;
      return instead_of_b;
    }
    if (std::find(muls_.begin(), muls_.end(), uop) == muls_.end()) return uop;
    UOp* left = Rebuild(graph, uop->src(0), a, instead_of_a, b, instead_of_b);
    UOp* right = Rebuild(graph, uop->src(1), a, instead_of_a, b, instead_of_b);
    return graph.Make(Op::MUL, {left, right});
  }

  UOp* root_;
  std::vector<UOp*> muls_, factors_;
};

UOp* StableProduct(const Match& m, Graph& graph) {
  const Product product(m.root());
  for (UOp* factor : product.factors()) {
    const Inverse inverse = InverseOf(factor);
    if (inverse.x == nullptr || inverse.x->shape() != factor->shape() || !product.Has(inverse.x)) continue;
    const Pair pair = Stable(graph, inverse);
    return product.With(graph, inverse.x, pair.instead_of_x, factor, pair.instead_of_inverse);
  }
  return nullptr;
}

// (… * x * …) / (x + 1): only for an x of its own is the quotient itself kept
// where it is finite; a longer product becomes one with the inverse.
UOp* StableQuotient(const Match& m, Graph& graph) {
  UOp* above = m.root()->src(0);
  UOp* inverse = graph.Make(Op::RECIPROCAL, {m.root()->src(1)});
  const Inverse parts = InverseOf(inverse);
  if (parts.x == nullptr || parts.x->shape() != m.root()->shape()) return nullptr;
  if (!Product(above).Has(parts.x)) return nullptr;
  return graph.Make(Op::MUL, {above, inverse});
}

}  // namespace

const RuleSet& StableRules() {
  static const RuleSet& rules = *new RuleSet({
      RULE("x * (1 / (1 + x)) -> where(1 < x, 1 - 1 / (1 + x), x) * where(1 < x, 1, 1 / (1 + x))",
           Pattern::Any(Op::MUL).If(IsFloatNode), StableProduct),
      RULE("x / (1 + x) -> x * (1 / (1 + x))", Pattern::Any(Op::FDIV).If(IsFloatNode), StableQuotient),
  });
  return rules;
}

}  // namespace kiln::compiler
