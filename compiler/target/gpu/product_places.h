// Where the elements of a side of a product by a work group are (structure/group_product.h), as code: of one that
// jumps, or has windows.
#ifndef KILN_COMPILER_TARGET_GPU_PRODUCT_PLACES_H_
#define KILN_COMPILER_TARGET_GPU_PRODUCT_PLACES_H_

#include <cstdint>
#include <vector>

#include "compiler/structure/group_product.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

class ProductPlaces {
 public:
  // `side`, whose values are `given`, and `builder` must outlive the object.
  ProductPlaces(llvm::IRBuilder<>& builder, const GroupProduct& product, const GroupProduct::Side& side,
                const ProductSide& given);

  // Of the element in row `row` of the tile at depth `k`, i32s that are not negative: its place, an i64, and whether it
  // is there: one of the side's rows, of what is reduced, and in all windows. Of one that is not, the place is 0.
  struct Element {
    llvm::Value *place, *there;
  };
  Element At(llvm::Value* row, llvm::Value* k);

 private:
  llvm::Value* I32(int64_t number) { return builder_.getInt32(static_cast<uint32_t>(number)); }
  // offset + row * step + k * step_k and the jumps, in the type of `offset`, modulo its size.
  llvm::Value* Number(llvm::Value* offset, llvm::Value* row, int64_t step, llvm::Value* k, int64_t step_k,
                      const std::vector<Jump>& jumps);

  llvm::IRBuilder<>& builder_;
  const GroupProduct& product_;
  const GroupProduct::Side& side_;
  llvm::Value *offset_, *first_;
  std::vector<llvm::Value*> windows_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_PRODUCT_PLACES_H_
