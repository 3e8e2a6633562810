// Nodes to polynomials and back.
#include <algorithm>

#include "base/check.h"
#include "compiler/ir/build.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/infer.h"
#include "compiler/ir/polynomial.h"

namespace kiln::compiler {
namespace {

// No size is worth more ops than this.
constexpr int kMaxWeight = 128;

using AtomInfo = PolynomialMemo::AtomInfo;

// What `polynomial` is made of: the sum of its atoms.
AtomInfo InfoOf(Graph& graph, const Polynomial& polynomial) {
  AtomInfo all{polynomial.exact(), 1};
  for (const auto& term : polynomial.terms()) {
    for (const UOp* atom : term.atoms) {
      const AtomInfo& info = graph.polynomials().atoms[atom];
      all.size &= info.size;
      all.weight = std::min(all.weight + info.weight, 2 * kMaxWeight);
    }
    ++all.weight;
  }
  return all;
}

Polynomial AtomOf(Graph& graph, UOp* atom, AtomInfo info) {
  if (info.weight > kMaxWeight) return Polynomial::Inexact();
  const bool fits = atom->bounds().known && atom->bounds().min >= std::numeric_limits<int64_t>::min() &&
                    atom->bounds().max <= std::numeric_limits<int64_t>::max();
  if (!fits) return Polynomial::Inexact();
  graph.polynomials().atoms[atom] = info;
  return Polynomial::Atom(atom);
}

// An op of two polynomials that is no polynomial itself. Where a polynomial leaves
// int64, the node that stands for it wraps, which a sum forgives and this op does not.
Polynomial AtomOf(Graph& graph, Op op, const Polynomial& a, const Polynomial& b) {
  if (!a.Range().has_value() || !b.Range().has_value()) return Polynomial::Inexact();
  const AtomInfo x = InfoOf(graph, a), y = InfoOf(graph, b);
  if (x.weight + y.weight > kMaxWeight) return Polynomial::Inexact();
  UOp *left = FromPolynomial(graph, a), *right = FromPolynomial(graph, b);
  graph.polynomials().polynomials.emplace(left, a);
  graph.polynomials().polynomials.emplace(right, b);
  UOp* atom = graph.Make(op, {left, right});
  Polynomial result = AtomOf(graph, atom, {x.size && y.size, x.weight + y.weight});
  graph.polynomials().polynomials.emplace(atom, result);
  return result;
}

// Whether the op's true result always fits its dtype.
bool NeverWraps(const UOp* uop) {
  const Bounds range = BoundsOf(uop->dtype());
  const Bounds &a = uop->src(0)->bounds(), &b = uop->src(uop->src().size() - 1)->bounds();
  constexpr __int128 kFar = __int128{1} << 63;
  for (__int128 x : {a.min, a.max, b.min, b.max}) {
    if (x > kFar || x < -kFar) return false;
  }
  if (uop->op() == Op::CAST) return a.known && a.min >= range.min && a.max <= range.max;
  if (uop->op() == Op::ADD) return a.min + b.min >= range.min && a.max + b.max <= range.max;
  for (__int128 x : {a.min, a.max}) {
    for (__int128 y : {b.min, b.max}) {
      if (x * y < range.min || x * y > range.max) return false;
    }
  }
  return true;
}

// The one quotient of integers that its dtype has no room for: the least number by -1.
bool QuotientMayWrap(const UOp* uop) {
  const Bounds &a = uop->src(0)->bounds(), &b = uop->src(1)->bounds();
  return IsSigned(uop->dtype()) && a.min <= BoundsOf(uop->dtype()).min && b.min <= -1 && b.max >= -1;
}

bool IsLinked(const UOp* uop) {
  switch (uop->op()) {
    case Op::ADD:
    case Op::MUL: return NeverWraps(uop);
    case Op::CAST: return IsInt(uop->src(0)->dtype()) && NeverWraps(uop);
    case Op::MAX:
    case Op::FLOORMOD: return true;
    case Op::FLOORDIV: return !QuotientMayWrap(uop);
    case Op::CDIV:
    case Op::CMOD: return uop->src(0)->bounds().min >= 0 && uop->src(1)->bounds().min > 0;
    default: return false;
  }
}

Polynomial Greater(Graph& graph, const Polynomial& a, const Polynomial& b) {
  if (IsNonNegative(graph, a - b)) return a;
  if (IsNonNegative(graph, b - a)) return b;
  return AtomOf(graph, Op::MAX, a, b);
}

// a // b * b + a mod b -> a.
Polynomial Join(Graph& graph, Polynomial sum) {
  const auto has = [&sum](const UOp* atom) {
    return std::any_of(sum.terms().begin(), sum.terms().end(), [atom](const auto& term) {
      return std::find(term.atoms.begin(), term.atoms.end(), atom) != term.atoms.end();
    });
  };
  std::vector<UOp*> remainders;
  for (const auto& term : sum.terms()) {
    for (UOp* atom : term.atoms) {
      if (atom->op() == Op::FLOORMOD) remainders.push_back(atom);
    }
  }
  for (UOp* remainder : remainders) {
    UOp* quotient = graph.Make(Op::FLOORDIV, remainder->src());
    Polynomial factor, rest;
    if (!has(remainder) || !has(quotient) || !sum.Split(remainder, factor, rest)) continue;
    const auto known = [&](UOp* source) { return graph.polynomials().polynomials.at(source); };
    const Polynomial joined =
        sum - factor * (Polynomial::Atom(remainder) + Polynomial::Atom(quotient) * known(remainder->src(1)) -
                        known(remainder->src(0)));
    if (joined.exact() && joined.terms().size() < sum.terms().size() + 2) sum = joined;
  }
  return sum;
}

// All that `uop`'s polynomial is made of is known.
Polynomial Make(Graph& graph, UOp* uop) {
  const auto known = [&](size_t i) { return graph.polynomials().polynomials.at(uop->src(i)); };
  if (uop->op() == Op::CONST && !uop->IsInvalid()) {
    if (!IsSigned(uop->dtype()) && uop->const_int() < 0) return Polynomial::Inexact();
    return Polynomial(uop->const_int());
  }
  if (IsLinked(uop)) {
    switch (uop->op()) {
      case Op::ADD: return Join(graph, known(0) + known(1));
      case Op::MUL: return known(0) * known(1);
      case Op::CAST: return known(0);
      case Op::MAX: return Greater(graph, known(0), known(1));
      case Op::CDIV:
      case Op::FLOORDIV:
        if (uop->src(1)->bounds().min > 0) return FloorDivide(graph, known(0), known(1));
        return AtomOf(graph, Op::FLOORDIV, known(0), known(1));
      default:
        if (uop->src(1)->bounds().min > 0) return FloorRemainder(graph, known(0), known(1));
        return AtomOf(graph, Op::FLOORMOD, known(0), known(1));
    }
  }
  return AtomOf(graph, uop, AtomInfo{uop->IsVariable(), 1});
}

}  // namespace

Polynomial PolynomialOf(Graph& graph, UOp* root) {
  auto& known = graph.polynomials().polynomials;
  std::vector<UOp*> stack = {root};
  while (!stack.empty()) {
    UOp* uop = stack.back();
    bool ready = true;
    if (!known.contains(uop) && IsLinked(uop)) {
      for (UOp* source : uop->src()) {
        if (known.contains(source)) continue;
        stack.push_back(source);
        ready = false;
      }
    }
    if (!ready) continue;
    stack.pop_back();
    if (known.contains(uop)) continue;
    Polynomial made = uop->shape().empty() && IsInt(uop->dtype()) ? Make(graph, uop) : Polynomial::Inexact();
    // What is not to be told apart is an atom of its own.
    if (!made.exact()) made = AtomOf(graph, uop, AtomInfo{false, 1});
    known.insert_or_assign(uop, std::move(made));
  }
  return known.at(root);
}

UOp* FromPolynomial(Graph& graph, const Polynomial& polynomial) {
  UOp* sum = nullptr;
  for (const auto& term : polynomial.terms()) {
    UOp* product = nullptr;
    for (UOp* atom : term.atoms) {
      UOp* factor = Cast(graph, atom, kIndexType);
      product = product == nullptr ? factor : Mul(graph, product, factor);
    }
    if (product == nullptr) {
      product = Idx(graph, term.coefficient);
    } else if (term.coefficient != 1) {
      product = Mul(graph, product, Idx(graph, term.coefficient));
    }
    sum = sum == nullptr ? product : Add(graph, sum, product);
  }
  return sum == nullptr ? Idx(graph, 0) : sum;
}

Polynomial FloorDivide(Graph& graph, const Polynomial& a, const Polynomial& b) {
  Polynomial quotient, rest;
  a.Divide(b, quotient, rest);
  if (!quotient.exact() || !rest.exact()) return AtomOf(graph, Op::FLOORDIV, a, b);
  if (IsNonNegative(graph, rest) && IsNonNegative(graph, b - rest - Polynomial(1))) return quotient;
  const Polynomial up = rest + b;  // n - 1 = 1 * n - 1 = 0 * n + (n - 1)
  if (IsNonNegative(graph, up) && IsNonNegative(graph, Polynomial(-1) - rest)) return quotient - Polynomial(1);
  return quotient + AtomOf(graph, Op::FLOORDIV, rest, b);
}

Polynomial FloorRemainder(Graph& graph, const Polynomial& a, const Polynomial& b) {
  Polynomial quotient, rest;
  a.Divide(b, quotient, rest);
  if (!quotient.exact() || !rest.exact()) return AtomOf(graph, Op::FLOORMOD, a, b);
  if (IsNonNegative(graph, rest) && IsNonNegative(graph, b - rest - Polynomial(1))) return rest;
  const Polynomial up = rest + b;
  if (IsNonNegative(graph, up) && IsNonNegative(graph, Polynomial(-1) - rest)) return up;
  return AtomOf(graph, Op::FLOORMOD, rest, b);
}

bool IsSize(Graph& graph, const Polynomial& polynomial) {
  const AtomInfo info = InfoOf(graph, polynomial);
  return info.size && info.weight <= kMaxWeight;
}

Dim DimOf(Graph& graph, const Polynomial& polynomial) {
  if (const std::optional<int64_t> constant = polynomial.constant()) return *constant;
  const std::optional<Bounds> range = polynomial.Range();
  KILN_CHECK(range.has_value());  // sizes are moderate: infer.cc
  if (range->min == range->max) return static_cast<int64_t>(range->min);
  return Dim(FromPolynomial(graph, polynomial), std::max<int64_t>(static_cast<int64_t>(range->min), 0),
             std::max<int64_t>(static_cast<int64_t>(range->max), 0));
}

Polynomial PolynomialOf(Graph& graph, const Dim& dim) {
  return dim.IsConst() ? Polynomial(dim.max()) : PolynomialOf(graph, dim.expr());
}

Dim ElementsOf(Graph& graph, const Shape& shape) {
  Polynomial product(1);
  for (const Dim& dim : shape) product = product * PolynomialOf(graph, dim);
  if (product.Range().has_value()) return DimOf(graph, product);
  // Too much for a normal form: a product as it is.
  int64_t least = 1, greatest = 1;
  UOp* expr = nullptr;
  for (const Dim& dim : shape) {
    least *= dim.min();
    greatest *= dim.max();
    if (dim == 1) continue;
    expr = expr == nullptr ? IndexOf(graph, dim) : Mul(graph, expr, IndexOf(graph, dim));
  }
  return least == greatest ? Dim(greatest) : Dim(expr, least, greatest);
}

UOp* IndexOf(Graph& graph, const Dim& dim) { return dim.IsConst() ? Idx(graph, dim.max()) : dim.expr(); }

}  // namespace kiln::compiler
