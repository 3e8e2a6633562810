#include "compiler/target/llvm/values/move_lanes.h"

#include <vector>

#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/Intrinsics.h"

namespace kiln::compiler {
namespace {

// Zeros are hidden from LLVM, which would expand the vector under a mask, in more than
// one slow instruction.
llvm::Value* Hidden(llvm::IRBuilder<>& b, llvm::Value* zeros) {
  auto* type = llvm::cast<llvm::FixedVectorType>(zeros->getType());
  llvm::Type* floats = llvm::FixedVectorType::get(b.getFloatTy(), type->getNumElements());
  llvm::Value* fence =
      b.CreateIntrinsic(llvm::Intrinsic::arithmetic_fence, {floats}, {llvm::Constant::getNullValue(floats)});
  return b.CreateBitCast(fence, type);
}

}  // namespace

llvm::Value* MoveLanes(llvm::IRBuilder<>& b, llvm::Value* value, int64_t shift, const ConstArg& fill) {
  auto* type = llvm::cast<llvm::FixedVectorType>(value->getType());
  const auto lanes = static_cast<int64_t>(type->getNumElements());
  llvm::Value* fills =
      b.CreateVectorSplat(static_cast<unsigned>(lanes), ConstantOf(b.getContext(), fill.dtype, fill.bits));
  // As integers: for these there is one instruction that rotates two vectors.
  llvm::Type* bits = type;
  if (type->isFPOrFPVectorTy())
    bits = llvm::FixedVectorType::get(b.getIntNTy(type->getScalarSizeInBits()), static_cast<unsigned>(lanes));
  value = b.CreateBitCast(value, bits);
  fills = b.CreateBitCast(fills, bits);
  if (fill.bits == 0 && bits->isIntOrIntVectorTy(32)) fills = Hidden(b, fills);
  // The lanes of both behind each other, in a circle.
  std::vector<int> chosen;
  for (int64_t lane = 0; lane < lanes; ++lane)
    chosen.push_back(static_cast<int>((lane + shift + 2 * lanes) % (2 * lanes)));
  return b.CreateBitCast(b.CreateShuffleVector(value, fills, chosen), type);
}

}  // namespace kiln::compiler
