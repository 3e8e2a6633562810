// Constants as a dialect writes them.
#ifndef KILN_COMPILER_TARGET_CSTYLE_LITERAL_H_
#define KILN_COMPILER_TARGET_CSTYLE_LITERAL_H_

#include <string>

#include "compiler/ir/graph.h"
#include "compiler/target/cstyle/prelude.h"

namespace kiln::compiler {

// `uop`, but for a NaN with a payload, which no language has a way to write, though
// all can reinterpret bits: it is a BITCAST of them.
UOp* ConstOrBits(Graph& graph, UOp* uop);

// The number `bits` (in ConstArg's form) as an expression of `dtype`. Negative
// ones stand in parentheses; every NaN is NAN.
std::string LiteralText(Prelude& prelude, DType dtype, uint64_t bits);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_LITERAL_H_
