// Prefix sums, products and maxima: what frontends write as n sums of up to n elements.
//
//   y[i] = sum over r of (i + r >= n - 1 ? x[i + r - (n - 1)] : 0)     a padded window
//   y[i] = sum over r of (r <= i ? x[r] : 0)                           a triangular mask
//
// In both, what iteration i of the output reduces is what its neighbour reduces, and one element
// more. So an accumulator that is kept from iteration to iteration does the work of the inner loop.
#ifndef KILN_COMPILER_RULES_SCAN_H_
#define KILN_COMPILER_RULES_SCAN_H_

#include <optional>

#include "compiler/ir/graph.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {

struct Scan {
  UOp* element;     // what iteration i adds to the reduction, as an expression of i alone
  bool descending;  // the first iteration is the last of the loop
};

// `reduce`, over one loop with a constant bound, as a scan along `output`, a loop around
// it with a constant bound, too. Exact but for the order of the reduction.
std::optional<Scan> ScanOf(Graph& graph, Rewriter& simplify, UOp* reduce, UOp* output);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_SCAN_H_
