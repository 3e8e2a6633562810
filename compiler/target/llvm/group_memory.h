// Memory of a work group's that a kernel needs beside its arrays, and the lanes of what the group multiplies.
#ifndef KILN_COMPILER_TARGET_LLVM_GROUP_MEMORY_H_
#define KILN_COMPILER_TARGET_LLVM_GROUP_MEMORY_H_

#include <vector>

#include "compiler/target/llvm/kernel_abi.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Nulls for what `linear` does not need. All ways through a kernel have the same.
struct GroupMemory {
  llvm::Value* reduction;  // group_reduce.h
  llvm::Value* product;    // KernelAbi::Multiply
};
GroupMemory GroupMemoryOf(const UOp* linear, llvm::Function* function, const KernelAbi& abi);

// Scalars as rows of so many lanes.
std::vector<Element> InLanes(llvm::IRBuilder<>& builder, const std::vector<llvm::Value*>& scalars, int64_t lanes);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_GROUP_MEMORY_H_
