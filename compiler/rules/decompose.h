// Ops that no target computes directly, in terms of ops that all do.
#ifndef KILN_COMPILER_RULES_DECOMPOSE_H_
#define KILN_COMPILER_RULES_DECOMPOSE_H_

#include "compiler/rewrite/pattern.h"
#include "compiler/rules/transcendental/native_ops.h"

namespace kiln::compiler {

// THREEFRY as 20 rounds of add, rotate and xor; arithmetic on float16, bfloat16
// and float8 in float32, rounded once an op; bool sums, products and maxima as
// logic; what transcendental.h has, but for what the target computes itself; and
// casts from and to float8 (emulate_dtype.h).
RuleSet DecomposeRules(NativeOps native);

// The rules of stable.h, then those above all over a kernel, with bytes for float8;
// then the symbolic ones.
UOp* Decompose(Graph& graph, UOp* sink, NativeOps native);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_DECOMPOSE_H_
