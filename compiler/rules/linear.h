// Sums of products with constants: the normal form of index arithmetic.
#ifndef KILN_COMPILER_RULES_LINEAR_H_
#define KILN_COMPILER_RULES_LINEAR_H_

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// constant + sum of coefficient * node, equal to the node it was made from
// modulo 2^64. The nodes are distinct and, but in sums of very many parts, are
// themselves no such sum.
struct LinearForm {
  struct Term {
    UOp* node;
    int64_t coefficient;
  };
  std::vector<Term> terms;
  int64_t constant = 0;

  // The exact range of the sum, were it computed without wrapping.
  Bounds Range() const;
};

// Of an int64 node.
LinearForm ToLinear(UOp* uop);
UOp* FromLinear(Graph& graph, const LinearForm& form);

// The smaller of two int64 nodes, in a form whose bounds are seen.
UOp* AtMost(Graph& graph, UOp* index, UOp* max);
UOp* AtMost(Graph& graph, UOp* index, int64_t max);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_LINEAR_H_
