// Products by work groups (structure/group_product.h) on AMD's matrix units: MFMA by waves of 64 items, WMMA by waves
// of 32.
//
// The operands of two iterations lie in shared memory, both as rows of k: of A a row for each of its rows, of B for
// each of its columns. Rows are padded by 16 bytes, so that those which a wave reads at once begin in different banks.
// Copies go through registers: what the next iteration multiplies is loaded before this iteration is multiplied, and
// stored behind it.
//
//   iteration t:  load what iteration t + 1 multiplies; multiply stage t % 2; store into the other stage; barrier
//
// One barrier an iteration is enough: what is stored to was read in the iteration before, and a barrier lies between.
//
// The instructions get B as their first factor and A as the second, so of what they give, the transposed product, an
// item has neighbours in a row.
#ifndef KILN_COMPILER_TARGET_GPU_WAVE_PRODUCT_H_
#define KILN_COMPILER_TARGET_GPU_WAVE_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "compiler/structure/group_product.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

int64_t WaveSharedBytes(const MatrixTile& tile);

// What KernelAbi::Multiply gives. `item`: the item's number in the group, an i32.
std::vector<llvm::Value*> EmitWaveProduct(llvm::IRBuilder<>& builder, const KernelAbi& abi,
                                          absl::string_view architecture, const GroupProduct& product,
                                          const ProductSide& a, const ProductSide& b, llvm::Value* item,
                                          llvm::Value* shared, uint64_t alignment);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_WAVE_PRODUCT_H_
