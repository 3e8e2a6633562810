// Products that are finite though a factor of theirs is not.
#ifndef KILN_COMPILER_RULES_STABLE_H_
#define KILN_COMPILER_RULES_STABLE_H_

#include "compiler/rewrite/pattern.h"

namespace kiln::compiler {

// docs/ir.md, "Floats": x * (1 / (1 + x)) is 1 - 1 / (1 + x), so that sigmoid, tanh,
// gelu and their gradients, in which x is an exponential, are finite where it
// overflows. In every spelling: the two factors anywhere in a product, the
// denominator squared or cubed, quotients. For graphs of tensors and kernels.
const RuleSet& StableRules();

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_STABLE_H_
