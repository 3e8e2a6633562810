// Products by work groups (structure/group_product.h) of float32 numbers on NVIDIA's cards, exactly as they are: by
// fused multiply-adds, or what the compilation allows in their place. No matrix unit takes float32.
//
// Operands come to shared memory as for mma.sync (mma_copy.h, stage_ring.h). An item has 8 rows and 8 columns of the
// tile, in two runs of four each. It reads 16 bytes of shared memory at once: four neighbours of a row of the stage, be
// they of k or of the operand's rows. Items of a warp that read at the same time read the same bytes, or are in other
// banks. Sums are in the order of k.
#ifndef KILN_COMPILER_TARGET_GPU_FMA_PRODUCT_H_
#define KILN_COMPILER_TARGET_GPU_FMA_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "compiler/structure/group_product.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

int64_t FmaSharedBytes(const MatrixTile& tile);

// What KernelAbi::Multiply gives. `item`: the item's number in the group, an i32.
std::vector<llvm::Value*> EmitFmaProduct(llvm::IRBuilder<>& builder, const GroupProduct& product, const ProductSide& a,
                                         const ProductSide& b, llvm::Value* item, llvm::Value* shared,
                                         uint64_t alignment);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_FMA_PRODUCT_H_
