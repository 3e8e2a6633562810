// REDUCEs of lanes.
#ifndef KILN_COMPILER_TARGET_LLVM_FOLD_LANES_H_
#define KILN_COMPILER_TARGET_LLVM_FOLD_LANES_H_

#include "compiler/ir/uop.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Halves a vector onto itself until one lane is left.
llvm::Value* FoldLanes(llvm::IRBuilder<>& builder, Op fold, DType dtype, llvm::Value* value, int64_t lanes);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_FOLD_LANES_H_
