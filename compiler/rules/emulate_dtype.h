// The 8-bit floats on targets that know nothing of them: they are bytes in
// memory, and float32 wherever they are computed with.
#ifndef KILN_COMPILER_RULES_EMULATE_DTYPE_H_
#define KILN_COMPILER_RULES_EMULATE_DTYPE_H_

#include <vector>

#include "compiler/rewrite/pattern.h"

namespace kiln::compiler {

bool IsFloat8(DType dtype);

// CASTs from and to float8 as integer arithmetic on their patterns. Each rounds
// once, to nearest even; docs/ir.md: a finite value past the greatest becomes the
// greatest, infinity stays or, where the format has none, is NaN.
std::vector<Rule> Float8CastRules();

// A kernel in which those CASTs are gone, with uint8 for every float8 that is
// left: what is loaded, stored, chosen and held constant are patterns.
UOp* StoreFloat8AsBytes(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_EMULATE_DTYPE_H_
