// Ops that no target computes directly, in terms of ops that all do.
#ifndef KILN_COMPILER_RULES_DECOMPOSE_H_
#define KILN_COMPILER_RULES_DECOMPOSE_H_

#include "compiler/rewrite/pattern.h"

namespace kiln::compiler {

// THREEFRY as 20 rounds of add, rotate and xor; arithmetic on float16 and
// bfloat16 in float32, rounded once an op; bool sums, products and maxima as
// logic.
const RuleSet& DecomposeRules();

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_DECOMPOSE_H_
