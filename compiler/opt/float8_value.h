// Bytes that are 8-bit floats, in kernels that know nothing of these any more: by the time that one is scheduled, they
// are arithmetic on patterns (rules/emulate_dtype.h).
#ifndef KILN_COMPILER_OPT_FLOAT8_VALUE_H_
#define KILN_COMPILER_OPT_FLOAT8_VALUE_H_

#include <optional>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

struct Float8Value {
  UOp* load;     // of the pattern, a uint8
  DType format;  // of OCP's two or the two of FNUZ
};

// The pattern whose value `uop`, a float32, is. That is seen from what it comes to for each of the 256 patterns, so no
// form of arithmetic is taken for granted.
std::optional<Float8Value> Float8ValueOf(UOp* uop);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_FLOAT8_VALUE_H_
