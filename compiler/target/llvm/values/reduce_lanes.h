// REDUCEs of lanes. Tested by tests/conformance/compiled_vs_interp_test.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_REDUCE_LANES_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_REDUCE_LANES_H_

#include "compiler/ir/uop.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Halves a vector onto itself until one lane is left.
llvm::Value* ReduceLanes(llvm::IRBuilder<>& builder, Op reduce_op, DType dtype, llvm::Value* value, int64_t lanes);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_REDUCE_LANES_H_
