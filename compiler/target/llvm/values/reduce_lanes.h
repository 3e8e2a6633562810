// REDUCEs of lanes. Tested by tests/conformance/compiled_vs_interp_test.
#ifndef KILN_COMPILER_TARGET_LLVM_VALUES_REDUCE_LANES_H_
#define KILN_COMPILER_TARGET_LLVM_VALUES_REDUCE_LANES_H_

#include "compiler/ir/uop.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Halves a vector onto itself until one lane is left.
llvm::Value* ReduceLanes(llvm::IRBuilder<>& builder, Op reduce_op, DType dtype, llvm::Value* value, int64_t lanes);

// The lanes of `source` reduced into those of `to`: first rows onto rows, whole vectors at a time; then within each
// vector.
Value ReduceInto(llvm::IRBuilder<>& builder, Op reduce_op, DType dtype, const Value& source, const Shape& to);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_VALUES_REDUCE_LANES_H_
