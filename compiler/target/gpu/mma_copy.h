// One operand of a product by mma.sync (mma_product.h): from global memory to a stage in shared memory, and from there
// to fragments.
#ifndef KILN_COMPILER_TARGET_GPU_MMA_COPY_H_
#define KILN_COMPILER_TARGET_GPU_MMA_COPY_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "compiler/structure/group_product.h"
#include "compiler/target/gpu/product_places.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

class MmaOperand {
 public:
  // Of `side`, whose values are `given`: `is_b` or A. It lies in a stage from byte `begin` on. Emits what is the same
  // in all iterations; all but the numbers must outlive the object.
  MmaOperand(llvm::IRBuilder<>& builder, const GroupProduct& product, const GroupProduct::Side& side,
             const ProductSide& given, bool is_b, int64_t begin, llvm::Value* item, llvm::Value* shared,
             uint64_t alignment);

  // Begins to copy what iteration `iteration`, an i32, multiplies to the stage at byte `stage` of shared memory. Zeros,
  // if there is no such iteration. What goes through registers is on its way to them until Finish(), which stores it.
  void Copy(llvm::Value* iteration, llvm::Value* stage);
  void Finish();

  // Whether a row of the stage is of k; else it is of the operand's rows (columns, of B).
  bool along_k() const { return along_k_; }
  int64_t row_bytes() const { return length_ * item_bytes_; }
  // Where piece `piece`, of 16 bytes, of row `line` of a stage lies: a byte.
  llvm::Value* ByteOf(llvm::Value* line, llvm::Value* piece);

  // So far, the places of fragments: 16 rows from row `warp_row` + 16 * block on (columns, of B), 32 bytes along k.
  void PlaceFragments(llvm::Value* warp_row, int64_t blocks);
  // Four registers of 32 bits. Of A: rows 0 to 7 and 8 to 15 of the lower half of k, then of the upper half. Of B: both
  // halves of k of columns 0 to 7, then of 8 to 15. Of float64 two of 64: of the first eight, then of the others.
  std::vector<llvm::Value*> Fragments(llvm::Value* stage, int64_t block, int64_t step);

 private:
  // 16 bytes of a row of the stage that this item copies.
  struct Piece {
    llvm::Value* source;        // at iteration 0
    llvm::Value* into;          // byte in a stage
    llvm::Value *line, *begin;  // its row in the stage, and its first element in that, i32s
    llvm::Value* inside;  // whether its row of the operand is there; of one that lies along the rows: how many are
  };

  // By which number pieces are exchanged, so many `pieces` of a row, or of rows beside each other: `times` the number
  // of the row among so many `lines`.
  struct Exchange {
    int64_t lines, times, pieces;
  };
  // Elements for a register that this item loads one by one: `base`, which is the same in all iterations, and so many
  // bytes further.
  struct Place {
    llvm::Value* base;
    int64_t further;
  };

  llvm::Value* I32(int64_t number) { return builder_.getInt32(static_cast<uint32_t>(number)); }
  // 0 to `max` of what is left.
  llvm::Value* Clamp(llvm::Value* left, int64_t max);
  llvm::Type* ItemType() { return builder_.getIntNTy(static_cast<unsigned>(8 * item_bytes_)); }
  Exchange ExchangeOf() const;
  bool TakesMatrices() const { return item_bytes_ == 2 || (along_k_ && item_bytes_ < 8); }
  void PlaceMatrices(llvm::Value* warp_row, int64_t blocks);
  void PlaceWords(llvm::Value* warp_row, int64_t blocks);
  Place PlaceOf(llvm::Value* line, int64_t lines, llvm::Value* element, int64_t elements);
  llvm::Value* LoadWord(llvm::Value* stage, size_t first);
  // Of a side that moves by steps alone, and of any other.
  void CopyPiece(llvm::Value* source, llvm::Value* into, llvm::Value* count);
  void LoadPiece(llvm::Value* source, llvm::Value* into, llvm::Value* count);
  void CopyJumping(llvm::Value* iteration, llvm::Value* stage);
  bool CopiesPastRegisters() const;
  // `some` elements from `place` on, of `width_`.
  void CopySome(llvm::Value* place, llvm::Value* into, llvm::Value* some);
  // `piece`, of 16 bytes, with the element at `place`, or 0 if it is not `there`, as its element `at`.
  llvm::Value* LoadOne(llvm::Value* piece, int64_t at, llvm::Value* place, llvm::Value* there);
  llvm::Value* NoElements();
  llvm::Value* Shared(llvm::Value* byte);

  llvm::IRBuilder<>& builder_;
  const GroupProduct& product_;
  const GroupProduct::Side& side_;
  const bool is_b_;
  const bool along_k_;
  const int64_t item_bytes_, piece_;  // of an element; elements of 16 bytes
  const int64_t begin_, rows_, depth_, lines_, length_;
  int64_t width_;  // elements that are copied at once
  llvm::Value *pointer_, *item_, *shared_, *first_;
  ProductPlaces places_;
  std::vector<Piece> pieces_;
  std::vector<std::pair<llvm::Value*, llvm::Value*>> loaded_;  // with the byte of shared memory where each belongs
  std::vector<llvm::Value*> fragments_;                        // by block, then by step
  // Where there are no matrices: by block, step, register, and element of that; and their bases, by line and piece.
  std::vector<Place> words_;
  std::map<std::pair<int64_t, int64_t>, llvm::Value*> bases_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_MMA_COPY_H_
