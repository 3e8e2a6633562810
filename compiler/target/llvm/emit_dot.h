// Dot products of 8-bit integers, where the target has them (compiler/kernel/dots.h).
#ifndef KILN_COMPILER_TARGET_LLVM_EMIT_DOT_H_
#define KILN_COMPILER_TARGET_LLVM_EMIT_DOT_H_

#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// `acc` and, in each lane, the four products of the uint8 in the word `u` and the int8 in the word `s`.
// Vectors of as many lanes as DotLanes says.
llvm::Value* EmitDot(llvm::IRBuilder<>& builder, llvm::Value* u, llvm::Value* s, llvm::Value* acc);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_EMIT_DOT_H_
