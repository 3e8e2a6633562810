// Dot products of narrow numbers, where the target has them (compiler/kernel/dots.h).
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_EMIT_DOT_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_EMIT_DOT_H_

#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// `acc` and, in each lane, the products of what is in the words `u` and `s`: of four uint8 and int8, or,
// where `acc` is float32, of two bfloat16. Vectors of as many lanes as DotUnitsOf says.
llvm::Value* EmitDot(llvm::IRBuilder<>& builder, llvm::Value* u, llvm::Value* s, llvm::Value* acc);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_EMIT_DOT_H_
