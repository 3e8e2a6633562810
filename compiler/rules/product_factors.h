// Products as factors: through MULs, quotients, reciprocals and casts between floats,
// and what the rules of stable.h look for among them. Tested by stable_test.
#ifndef KILN_COMPILER_RULES_PRODUCT_FACTORS_H_
#define KILN_COMPILER_RULES_PRODUCT_FACTORS_H_

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// x of x + 1, or of x - 1; null if `sum` is none.
UOp* LessOne(const UOp* sum);
UOp* PlusOne(const UOp* sum);
bool IsOne(UOp* uop);

// One value in two float dtypes, or the same node.
bool SameBeforeCasts(UOp* a, UOp* b);

// 1 / (x + 1)^power, power up to 3; `x` is null if it is none.
struct Inverse {
  UOp* x = nullptr;
  UOp* sum = nullptr;  // x + 1
  int power = 0;
};
Inverse InverseOf(const UOp* factor);  // 1 / (x + 1)^power
Inverse InverseBy(UOp* divisor);       // (x + 1)^power

// A factor, and where in the product it stands.
struct ProductFactor {
  enum Place {
    kAbove,
    kBelow,    // of a quotient, one factor among others or of a reciprocal's
    kDivisor,  // all that is below in a quotient whose divisor is a power of x + 1
  };
  UOp* uop;
  Place place;

  bool operator==(const ProductFactor& other) const { return uop == other.uop && place == other.place; }
};

// A product as a tree. A power 1 / (x + 1)^n is one factor. Of a longer product only so
// many factors are looked at that looking is cheap.
class ProductTree {
 public:
  explicit ProductTree(UOp* root);

  const std::vector<ProductFactor>& factors() const { return factors_; }

  // The same product with one occurrence of each of two factors replaced; in place of a
  // kDivisor comes something to multiply with.
  struct Change {
    ProductFactor factor;
    UOp* instead;
  };
  UOp* With(Graph& graph, Change a, Change b) const;

 private:
  UOp* Rebuild(Graph& graph, const ProductFactor& factor, Change (&changes)[2]) const;

  UOp* root_;
  std::vector<ProductFactor> inside_, factors_;
};

// A product as what it multiplies and divides by, each in the order of ids, and a number.
struct FactorLists {
  std::vector<UOp*> above, below;
  double number = 1;
};
// None for a product of many factors.
std::optional<FactorLists> FactorListsOf(UOp* root);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_PRODUCT_FACTORS_H_
