// Rounding to the nearest whole number, as graphs have to write it: tinyspec has no op for that, and clients and the
// importer of ONNX all do the same with the bits of a float32:
//
//   size = x without its sign
//   (size < 2^23 ? size + 2^23 - 2^23 : size), with the sign of x
//
// Processors have one instruction for it.
#ifndef KILN_COMPILER_STRUCTURE_ROUNDING_H_
#define KILN_COMPILER_STRUCTURE_ROUNDING_H_

#include "compiler/ir/uop.h"

namespace kiln::compiler {

// The float32 x, if `whole`, a float32 again, is x rounded to the nearest whole number, of two the even one; else null.
UOp* RoundedIn(UOp* whole);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_ROUNDING_H_
