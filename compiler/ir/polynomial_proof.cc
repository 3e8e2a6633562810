// Proofs about polynomials: an atom after the other is replaced by the end of its
// interval at which the polynomial is least, until only leaves are left.
#include <algorithm>

#include "compiler/ir/graph.h"
#include "compiler/ir/polynomial.h"

namespace kiln::compiler {
namespace {

// How deep a proof may go; each level takes one atom away.
constexpr int kMaxDepth = 12;
// How many questions one proof may ask.
constexpr int kMaxSteps = 200;

// What has bounds and nothing else that a proof could use.
bool IsLeaf(const UOp* uop) { return uop->op() == Op::PARAM; }

class Prover {
 public:
  explicit Prover(Graph& graph) : graph_(graph) {}

  bool NonNegative(const Polynomial& p, int depth) {
    if (!p.exact() || depth == 0 || ++steps_ > kMaxSteps) return false;
    const std::optional<Bounds> range = p.Range();
    if (range.has_value() && range->min >= 0) return true;
    if (range.has_value() && range->max < 0) return false;
    UOp* atom = LastOther(p);
    if (atom == nullptr) return OfLeaves(p);
    Polynomial factor, rest;
    if (!p.Split(atom, factor, rest)) return false;
    if (IsQuotient(atom) && ByQuotient(atom, factor, rest, depth - 1)) return true;
    return ByEnds(atom, factor, rest, depth - 1) || (atom->op() == Op::MAX && ByEither(atom, factor, rest, depth - 1));
  }

 private:
  static bool IsQuotient(const UOp* atom) { return atom->op() == Op::FLOORDIV && atom->src(1)->bounds().min > 0; }

  // x - m < x // m * m <= x: for a factor that is a multiple of m.
  bool ByQuotient(UOp* atom, const Polynomial& factor, const Polynomial& rest, int depth) {
    const Polynomial x = PolynomialOf(graph_, atom->src(0)), m = PolynomialOf(graph_, atom->src(1));
    const std::optional<Polynomial> times = factor.DividedBy(m);
    if (!times.has_value()) return false;
    const Polynomial minus = Polynomial(0) - *times;
    if (NonNegative(minus, depth)) return NonNegative(rest - minus * x, depth);
    return NonNegative(*times, depth) && NonNegative(rest + *times * (x - m + Polynomial(1)), depth);
  }

  bool ByEnds(UOp* atom, const Polynomial& factor, const Polynomial& rest, int depth) {
    if (NonNegative(factor, depth)) return NonNegative(rest + factor * Least(atom), depth);
    if (!NonNegative(Polynomial(0) - factor, depth)) return false;
    const std::optional<Polynomial> greatest = Greatest(atom, depth);
    return greatest.has_value() && NonNegative(rest + factor * *greatest, depth);
  }

  // The greater of two is one of them, and not less than either.
  bool ByEither(UOp* atom, const Polynomial& factor, const Polynomial& rest, int depth) {
    const auto holds = [&](size_t i) { return NonNegative(rest + factor * PolynomialOf(graph_, atom->src(i)), depth); };
    return NonNegative(factor, depth) ? holds(0) || holds(1) : holds(0) && holds(1);
  }

  // The youngest atom that is no leaf: no other one is made of it.
  static UOp* LastOther(const Polynomial& p) {
    UOp* last = nullptr;
    for (const auto& term : p.terms()) {
      for (UOp* atom : term.atoms) {
        if (!IsLeaf(atom) && (last == nullptr || atom->id() > last->id())) last = atom;
      }
    }
    return last;
  }

  static Polynomial Least(const UOp* atom) { return Polynomial(static_cast<int64_t>(atom->bounds().min)); }

  // No value of `atom` is greater.
  std::optional<Polynomial> Greatest(UOp* atom, int depth) {
    const Polynomial one(1);
    if (atom->op() == Op::RANGE) return PolynomialOf(graph_, atom->src(0)) - one;
    const bool divides = (atom->op() == Op::FLOORMOD || atom->op() == Op::FLOORDIV) && atom->src(1)->bounds().min > 0;
    if (divides && atom->op() == Op::FLOORMOD) return PolynomialOf(graph_, atom->src(1)) - one;
    if (divides) {
      // x // m is at most k - 1 for every x below k * m.
      const std::optional<Polynomial> x = Above(PolynomialOf(graph_, atom->src(0)), depth);
      if (!x.has_value()) return std::nullopt;
      const std::optional<Polynomial> k = (*x + one).DividedBy(PolynomialOf(graph_, atom->src(1)));
      if (k.has_value()) return *k - one;
    }
    return Polynomial(static_cast<int64_t>(atom->bounds().max));
  }

  // `p` with leaves alone, and never less.
  std::optional<Polynomial> Above(Polynomial p, int depth) {
    for (; depth > 0; --depth) {
      UOp* atom = LastOther(p);
      if (atom == nullptr) return p;
      Polynomial factor, rest;
      if (!p.Split(atom, factor, rest)) return std::nullopt;
      if (NonNegative(factor, depth - 1)) {
        const std::optional<Polynomial> greatest = Greatest(atom, depth - 1);
        if (!greatest.has_value()) return std::nullopt;
        p = rest + factor * *greatest;
      } else if (NonNegative(Polynomial(0) - factor, depth - 1)) {
        p = rest + factor * Least(atom);
      } else {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // Counted from one end of its range, each variable is 0 or more; then a sum
  // without negative coefficients is, too.
  bool OfLeaves(const Polynomial& p) {
    std::vector<UOp*> variables;
    for (const auto& term : p.terms()) {
      for (UOp* atom : term.atoms) {
        if (std::find(variables.begin(), variables.end(), atom) == variables.end()) variables.push_back(atom);
      }
    }
    if (variables.size() > 4) return false;
    for (unsigned ends = 0; ends < 1u << variables.size(); ++ends) {
      Polynomial shifted;
      for (const auto& term : p.terms()) {
        Polynomial product(term.coefficient);
        for (UOp* atom : term.atoms) {
          const auto i = std::find(variables.begin(), variables.end(), atom) - variables.begin();
          const bool from_max = (ends >> i & 1) != 0;
          const auto end = static_cast<int64_t>(from_max ? atom->bounds().max : atom->bounds().min);
          // `atom` stands for its own distance from that end.
          product = product * (Polynomial(end) + Polynomial::Atom(atom) * Polynomial(from_max ? -1 : 1));
        }
        shifted = shifted + product;
      }
      const auto& terms = shifted.terms();
      if (shifted.exact() && std::all_of(terms.begin(), terms.end(), [](const auto& t) { return t.coefficient > 0; }))
        return true;
    }
    return false;
  }

  Graph& graph_;
  int steps_ = 0;
};

}  // namespace

bool IsNonNegative(Graph& graph, const Polynomial& polynomial) {
  return Prover(graph).NonNegative(polynomial, kMaxDepth);
}

}  // namespace kiln::compiler
