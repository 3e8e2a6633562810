// EXP2, LOG2 and SIN of float32 with what vector units have for them.
//
// The compositions of compiler/rules/transcendental/transcendental.h need nothing but additions,
// products and integers, and pay for that: each lane of a SIN is reduced as if it were
// huge, each EXP2 scales in two steps and looks for overflow first. AVX-512 takes
// exponents off and puts them on, with all special values, in one instruction; and
// whether any lane is huge is one question to a whole vector.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_VECTOR_MATH_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_VECTOR_MATH_H_

#include <vector>

#include "compiler/ir/op.h"
#include "compiler/rules/transcendental/native_ops.h"
#include "kiln/v1/target.pb.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// What EmitVectorMath has code for on this target; all within docs/ir.md's bounds over the
// whole range (docs/accuracy.md).
std::vector<NativeOp> VectorMathOps(const v1::Target& target);

// `op` of a float32 or a vector of any number of them, on a target whose VectorMathOps
// list it. May end the builder's block, and go on in another.
llvm::Value* EmitVectorMath(llvm::IRBuilder<>& builder, Op op, llvm::Value* x);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_VECTOR_MATH_H_
