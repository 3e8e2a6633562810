// Rules that make expressions smaller without changing any value: constant
// folding, identities, intervals, and integer arithmetic as linear forms.
#ifndef KILN_COMPILER_RULES_SYMBOLIC_H_
#define KILN_COMPILER_RULES_SYMBOLIC_H_

#include "compiler/rewrite/pattern.h"

namespace kiln::compiler {

// Folding and identities, for operands of every dtype.
const RuleSet& IdentityRules();
// Conditions, choices and conversions.
const RuleSet& ChoiceRules();
// Sums, quotients and remainders of int64 index arithmetic.
const RuleSet& DivModRules();
// Simplifies what a gate guards by what the gate says.
const RuleSet& GivenRules();
// All of them.
const RuleSet& SymbolicRules();

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_SYMBOLIC_H_
