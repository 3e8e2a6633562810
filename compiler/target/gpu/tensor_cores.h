// Matrix instructions of NVIDIA's warps: one table.
#ifndef KILN_COMPILER_TARGET_GPU_TENSOR_CORES_H_
#define KILN_COMPILER_TARGET_GPU_TENSOR_CORES_H_

#include "compiler/ir/uop.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Whether there is an instruction for it, from sm_80 on: sizes, dtypes, 32 items. Where each element of its
// fragments belongs is what kernel/wmma.h says.
bool HasTensorCore(const WmmaArg& arg);

// The instruction, for one that HasTensorCore: the sum's fragment.
llvm::Value* EmitTensorCore(llvm::IRBuilder<>& builder, const WmmaArg& arg, llvm::Value* a, llvm::Value* b,
                            llvm::Value* c);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_TENSOR_CORES_H_
