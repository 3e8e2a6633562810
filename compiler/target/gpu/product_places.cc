#include "compiler/target/gpu/product_places.h"

#include <limits>

namespace kiln::compiler {

ProductPlaces::ProductPlaces(llvm::IRBuilder<>& builder, const GroupProduct& product, const GroupProduct::Side& side,
                             const ProductSide& given)
    : builder_(builder), product_(product), side_(side) {
  // Half the registers, where places fit.
  const bool is_short = side.param->shape()[0].max() <= std::numeric_limits<int32_t>::max();
  offset_ = is_short ? builder.CreateTrunc(given.offset, builder.getInt32Ty()) : given.offset;
  first_ = builder.CreateTrunc(given.first, builder.getInt32Ty());
  for (llvm::Value* window : given.windows) windows_.push_back(builder.CreateTrunc(window, builder.getInt32Ty()));
}

ProductPlaces::Element ProductPlaces::At(llvm::Value* row, llvm::Value* k) {
  llvm::Value* there = builder_.CreateICmpSLT(k, I32(product_.reduced));
  there = builder_.CreateAnd(there, builder_.CreateICmpSLT(builder_.CreateAdd(first_, row), I32(side_.size)));
  for (size_t i = 0; i < windows_.size(); ++i) {
    const GroupProduct::Window& window = side_.windows[i];
    llvm::Value* number = Number(windows_[i], row, window.step, k, window.step_k, window.jumps);
    there = builder_.CreateAnd(there, builder_.CreateICmpULT(number, I32(window.size)));
  }
  llvm::Value* place = Number(offset_, row, side_.step, k, side_.step_k, side_.jumps);
  place = builder_.CreateSelect(there, place, llvm::ConstantInt::get(place->getType(), 0));
  return {builder_.CreateZExt(place, builder_.getInt64Ty()), there};
}

// What rows add is the same in all iterations, and k what differs: each is added up by itself.
llvm::Value* ProductPlaces::Number(llvm::Value* offset, llvm::Value* row, int64_t step, llvm::Value* k, int64_t step_k,
                                   const std::vector<Jump>& jumps) {
  llvm::Type* type = offset->getType();
  const auto times = [&](llvm::Value* number, int64_t factor) {
    number = builder_.CreateZExt(number, type);
    return builder_.CreateMul(number, llvm::ConstantInt::getSigned(type, factor));
  };
  llvm::Value* of_rows = builder_.CreateAdd(offset, times(row, step));
  llvm::Value* of_k = times(k, step_k);
  for (const Jump& jump : jumps) {
    llvm::Value* from = jump.reduced ? k : builder_.CreateAdd(first_, row);
    llvm::Value*& sum = jump.reduced ? of_k : of_rows;
    sum = builder_.CreateAdd(sum, times(builder_.CreateUDiv(from, I32(jump.every)), jump.by));
  }
  return builder_.CreateAdd(of_rows, of_k);
}

}  // namespace kiln::compiler
