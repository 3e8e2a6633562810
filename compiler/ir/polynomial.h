// Integer arithmetic in a normal form: a sum of products. What symbolic sizes are
// compared, divided and proved with.
//
// An atom is what is no sum or product itself: a variable, a loop, a quotient, a
// loaded value. Two integer expressions that expand to the same polynomial over
// the same atoms are equal for all values; and since atoms are interned, equal
// polynomials give one and the same node (FromPolynomial).
#ifndef KILN_COMPILER_IR_POLYNOMIAL_H_
#define KILN_COMPILER_IR_POLYNOMIAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

class Graph;

// A value. Results that would have too many terms, too high powers, or
// coefficients beyond int64 are inexact: they equal nothing and prove nothing.
class Polynomial {
 public:
  struct Term {
    absl::InlinedVector<UOp*, 3> atoms;  // ascending by id; a power repeats its atom
    int64_t coefficient = 0;             // never 0
    bool operator==(const Term&) const = default;
  };

  Polynomial() = default;                 // 0
  explicit Polynomial(int64_t constant);  // a number
  static Polynomial Atom(UOp* atom);
  static Polynomial Inexact();

  bool exact() const { return exact_; }
  // Highest powers first, the constant last.
  const std::vector<Term>& terms() const { return terms_; }
  // The number, if it is one.
  std::optional<int64_t> constant() const;

  Polynomial operator+(const Polynomial& other) const;
  Polynomial operator-(const Polynomial& other) const { return *this + other * Polynomial(-1); }
  Polynomial operator*(const Polynomial& other) const;
  // Exact, and equal for all values of the atoms.
  bool Equals(const Polynomial& other) const { return exact_ && other.exact_ && terms_ == other.terms_; }

  // q with *this = q * divisor.
  std::optional<Polynomial> DividedBy(const Polynomial& divisor) const;
  // q and r with *this = q * divisor + r, where no term of r is a multiple of the
  // divisor's leading term. The divisor is not 0.
  void Divide(const Polynomial& divisor, Polynomial& quotient, Polynomial& rest) const;

  // Every value, from the bounds of the atoms; nothing if that goes beyond int64.
  std::optional<Bounds> Range() const;

  // *this = factor * atom + rest with no `atom` in either; false if a power of it
  // occurs.
  bool Split(const UOp* atom, Polynomial& factor, Polynomial& rest) const;

 private:
  void Add(Term term);
  void Limit();

  std::vector<Term> terms_;
  bool exact_ = true;
};

// Of an integer scalar. Ops that might wrap are atoms, so equality and Range are of
// the true values. Remembered by the graph: the cost is that of new nodes alone.
Polynomial PolynomialOf(Graph& graph, UOp* uop);
// The int64 node that stands for all expressions of this value; where that may leave
// int64 (Range), the value modulo 2^64.
UOp* FromPolynomial(Graph& graph, const Polynomial& polynomial);

// Floor division and its remainder by what is at least 1, simplified as far as can
// be proved.
Polynomial FloorDivide(Graph& graph, const Polynomial& a, const Polynomial& b);
Polynomial FloorRemainder(Graph& graph, const Polynomial& a, const Polynomial& b);

// Whether it is 0 or more for every value of its atoms: RANGEs within their
// bounds, also where these are symbolic, variables within theirs. `false` is "not
// proved". Where an atom is a RANGE, the answer holds inside its loop.
bool IsNonNegative(Graph& graph, const Polynomial& polynomial);

// What a graph remembers of its nodes as polynomials.
struct PolynomialMemo {
  struct AtomInfo {
    bool size = false;  // made of variables alone
    int weight = 1;     // about how many ops compute it
  };
  absl::flat_hash_map<const UOp*, Polynomial> polynomials;
  absl::flat_hash_map<const UOp*, AtomInfo> atoms;
};

// -- Sizes

// Whether it is made of variables alone, and is no more than a size may be.
bool IsSize(Graph& graph, const Polynomial& polynomial);
// A size of this value; a number where only one is possible.
Dim DimOf(Graph& graph, const Polynomial& polynomial);
Polynomial PolynomialOf(Graph& graph, const Dim& dim);
// The number of elements, as a size.
Dim ElementsOf(Graph& graph, const Shape& shape);
UOp* IndexOf(Graph& graph, const Dim& dim);  // an int64 node

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_POLYNOMIAL_H_
