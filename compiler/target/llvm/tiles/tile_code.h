// The instructions of x86's AMX, for MatrixUnit: as they are, or as loops over an array in place of the registers.
#ifndef KILN_COMPILER_TARGET_LLVM_TILES_TILE_CODE_H_
#define KILN_COMPILER_TARGET_LLVM_TILES_TILE_CODE_H_

#include <array>
#include <memory>

#include "compiler/ir/dtype.h"
#include "compiler/structure/core_product.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

// Of each register: its rows, and the words in each.
struct TileShape {
  int64_t rows = 0, words = 0;
  bool operator==(const TileShape&) const = default;
};
using TileShapes = std::array<TileShape, kTileRegisters>;

class TileCode {
 public:
  virtual ~TileCode() = default;

  virtual void Configure(const TileShapes& shapes) = 0;
  virtual void Release() = 0;
  virtual void Clear(int64_t tile) = 0;
  // Rows are `step` bytes apart, an i64.
  virtual void Load(int64_t tile, llvm::Value* pointer, llvm::Value* step) = 0;
  virtual void Store(int64_t tile, llvm::Value* pointer, llvm::Value* step) = 0;
  // sum += a * b, of terms of these dtypes.
  virtual void Multiply(int64_t sum, int64_t a, int64_t b, DType a_dtype, DType b_dtype) = 0;
};

std::unique_ptr<TileCode> AmxCode(llvm::IRBuilder<>& builder, llvm::Function* function);
std::unique_ptr<TileCode> TileLoops(llvm::IRBuilder<>& builder, llvm::Function* function);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_TILES_TILE_CODE_H_
