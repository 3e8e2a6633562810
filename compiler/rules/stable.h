// Products that are finite though a factor of theirs is not.
#ifndef KILN_COMPILER_RULES_STABLE_H_
#define KILN_COMPILER_RULES_STABLE_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// docs/ir.md, "Floats": x * (1 / (1 + x)) is 1 - 1 / (1 + x), so that sigmoid, tanh,
// gelu and their gradients, in which x is an exponential, are finite where it
// overflows. In every spelling: the two factors anywhere in a product, the
// denominator squared or cubed, quotients, casts between floats on the way. And where x is
// an exponential, (x - 1) / (1 + x), tanh's quotient, is 1 - 2 / (1 + x); what a quotient's
// gradient gives x, p - p * x / (1 + x), is p / (1 + x): the difference loses all digits, and
// is no product that the above could find; and two such terms become one. (Logarithms are
// made of the same quotient as tanh, of an x near 1 that is no exponential: they stay as they
// are.)
// For graphs of tensors, before fusion can part the factors, and kernels.
UOp* MakeStable(Graph& graph, UOp* root);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_STABLE_H_
