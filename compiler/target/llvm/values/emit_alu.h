// Elementwise ops as LLVM instructions: docs/ir.md's meaning of each, on scalars and
// vectors alike, with no trap and no undefined behaviour for any operand.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_EMIT_ALU_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_EMIT_ALU_H_

#include "compiler/ir/uop.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// `uop` applied to `operands`, which all have its number of lanes. THREEFRY and
// arithmetic on narrow floats have been decomposed before.
llvm::Value* EmitAlu(llvm::IRBuilder<>& builder, const UOp& uop, llvm::ArrayRef<llvm::Value*> operands);

// `value` from one dtype to another, or its bits read as another of one size.
llvm::Value* EmitCast(llvm::IRBuilder<>& builder, llvm::Value* value, DType from, DType to);
llvm::Value* EmitBitcast(llvm::IRBuilder<>& builder, llvm::Value* value, DType from, DType to);

// The op of a reduction: ADD, MUL or MAX of two values.
llvm::Value* EmitReduceOp(llvm::IRBuilder<>& builder, Op reduce_op, DType dtype, llvm::Value* a, llvm::Value* b);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_EMIT_ALU_H_
