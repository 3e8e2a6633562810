// Products by work groups (structure/group_product.h) on NVIDIA's tensor cores, by mma.sync.
//
// The operands of several iterations lie in a ring of stages in shared memory (stage_ring.h). Copies go there past the
// registers, and what is beyond the operand is filled with zeros. From shared memory, ldmatrix brings each warp the
// fragments of its part of the tile.
//
// A stage holds an operand as it lies in memory: rows of k, or, where its rows (columns, of B) are neighbours, rows of
// those, which ldmatrix transposes on the way. The 16-byte pieces of a row are exchanged by its number (XOR), so that
// the eight pieces which ldmatrix reads at once, one above the other, are in different banks.
//
// Pieces of 16, 8 or 4 bytes are copied as what is known of addresses allows. Elements that are neighbours in no such
// piece are loaded one by one, and are on their way while the iteration is multiplied.
#ifndef KILN_COMPILER_TARGET_GPU_MMA_PRODUCT_H_
#define KILN_COMPILER_TARGET_GPU_MMA_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "compiler/structure/group_product.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

int64_t MmaSharedBytes(const MatrixTile& tile);

// What KernelAbi::Multiply gives. `item`: the item's number in the group, an i32.
std::vector<llvm::Value*> EmitMmaProduct(llvm::IRBuilder<>& builder, absl::string_view architecture,
                                         const GroupProduct& product, const ProductSide& a, const ProductSide& b,
                                         llvm::Value* item, llvm::Value* shared, uint64_t alignment);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_MMA_PRODUCT_H_
