// EXP2, LOG2, SIN and POW of float32 and float64 from additions, products,
// comparisons and integer operations: the same on every target, straight-line
// code without calls or branches, so a vector of lanes costs what one lane does.
//
// docs/ir.md's bounds hold over the whole range, with FMA contraction and without:
// EXP2, LOG2 and SIN 2 ulp in float32 and 4 in float64, POW 4 and 16.
// docs/accuracy.md has what was measured. The coefficients come from
// compiler/rules/transcendental/minimax.py.
#ifndef KILN_COMPILER_RULES_TRANSCENDENTAL_TRANSCENDENTAL_H_
#define KILN_COMPILER_RULES_TRANSCENDENTAL_TRANSCENDENTAL_H_

#include <vector>

#include "compiler/rewrite/formula.h"
#include "compiler/rewrite/pattern.h"
#include "compiler/rules/transcendental/native_ops.h"

namespace kiln::compiler {

// One rule for each op and dtype that `native` does not have.
std::vector<Rule> TranscendentalRules(NativeOps native);

// -- The right-hand sides; operands are float32 or float64.

Formula Exp2(Formula x);
Formula Log2(Formula x);
Formula Sin(Formula x);
Formula Pow(Formula x, Formula y);

// 2^fraction * 2^integer, for |fraction| <= 1/2 and |integer| within twice the
// bias; rounded once where that is denormal.
Formula Exp2OfParts(Formula integer, Formula fraction);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_TRANSCENDENTAL_TRANSCENDENTAL_H_
