// A product by a work group on Hopper's tensor cores.
//
// Warps in fours, warp groups, multiply matrices that lie in shared memory (wgmma): 64 rows each, the sum in the
// registers of their 128 items. Behind them is one more, the producer, of which one item asks the copy engine for the
// next iterations' boxes of both matrices (tensor maps). They meet at two barriers a stage of a ring: `full`, when the
// engine has brought a stage's bytes, and `empty`, when all warps have multiplied what was in it.
#ifndef KILN_COMPILER_TARGET_GPU_WGMMA_PRODUCT_H_
#define KILN_COMPILER_TARGET_GPU_WGMMA_PRODUCT_H_

#include <cstdint>
#include <vector>

#include "compiler/ir/dtype.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

struct WgmmaTile {
  int64_t rows = 0;             // 64 for each warp group
  int64_t columns = 0;          // 64, 128, 192 or 256
  DType in = DType::kBfloat16;  // or kFloat16; sums are float32
  int64_t reduced = 0;          // how deep the product is: any number from 1 on

  int64_t warp_groups() const { return rows / 64; }
  // Of a group, the producer's the last.
  int64_t items() const { return 128 * (warp_groups() + 1); }
};

// One matrix: its rows are the product's rows, or columns. Elements are those of `in`.
struct WgmmaSide {
  llvm::Value* pointer = nullptr;  // to the buffer
  llvm::Value* offset = nullptr;   // i64, in elements: of the tile's row 0, at depth 0
  llvm::Value* first = nullptr;    // i64: which row of the matrix that is
  llvm::Value* matrix = nullptr;   // i64: which of several matrices, the map's third axis; null if there is but one
  int64_t size = 0;                // rows of the matrix: what is beyond is zero
  int64_t step = 0, step_k = 0;    // from row to row and along the depth: one of them is 1
  llvm::Value* map = nullptr;      // a pointer to the tensor map: see WgmmaBoxOf
};

// What a side's tensor map says of its innermost two axes: depth and rows, or, where rows lie beside each other, rows
// and depth; swizzled by 128 bytes.
struct WgmmaBox {
  int64_t inner = 0, outer = 0;
};
inline constexpr uint32_t kWgmmaSwizzle = 128;
WgmmaBox WgmmaBoxOf(int64_t rows, bool rows_beside_each_other);

// Shared memory, which begins at a multiple of kWgmmaAlignment.
inline constexpr uint64_t kWgmmaAlignment = 1024;
uint64_t WgmmaSharedBytes(const WgmmaTile& tile);

// The sum, floats of each item of the warp groups that multiply: with t the item's number, for i of 2, j of columns / 8
// and c of 2, in this order, the element in row t / 128 * 64 + t % 128 / 32 * 16 + t % 32 / 4 + 8 i and column
// 8 j + t % 4 * 2 + c. The builder, at the end of a block, gets to another, to which the producer never comes: it has
// returned. `by_engine`: both buffers begin at multiples of 16 and have tensor maps; else items bring the matrices
// themselves. All items of a one-dimensional group of `tile.items()` get here, once.
std::vector<llvm::Value*> EmitWgmma(llvm::IRBuilder<>& builder, const WgmmaTile& tile, const WgmmaSide& a,
                                    const WgmmaSide& b, llvm::Value* shared, bool by_engine);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_WGMMA_PRODUCT_H_
