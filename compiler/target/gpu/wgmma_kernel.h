// Products by work groups (structure/group_product.h) on Hopper's tensor cores: what their kernels take besides.
#ifndef KILN_COMPILER_TARGET_GPU_WGMMA_KERNEL_H_
#define KILN_COMPILER_TARGET_GPU_WGMMA_KERNEL_H_

#include <optional>
#include <vector>

#include "compiler/structure/group_product.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "kiln/v1/executable.pb.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

int64_t WgmmaKernelSharedBytes(const GroupProduct& product);

// The kernel's tensor maps, of A and of B, which are parameters behind all operands. None if it has no product by such
// a tile, or the copy engine cannot take one side: items then bring both.
std::vector<v1::TensorMap> TensorMapsOf(const UOp* linear);
void SayTensorMaps(llvm::Function& function, unsigned first, size_t count);

// What KernelAbi::Multiply gives.
std::vector<llvm::Value*> EmitWgmmaProduct(llvm::IRBuilder<>& builder, const GroupProduct& product,
                                           const ProductSide& a, const ProductSide& b, llvm::Value* shared,
                                           uint64_t alignment);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_WGMMA_KERNEL_H_
