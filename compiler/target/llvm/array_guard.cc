#include "compiler/target/llvm/array_guard.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {
namespace {

constexpr uint64_t kZoneBytes = 64;  // the alignment of arrays too
constexpr uint64_t kZoneWords = kZoneBytes / 8;
constexpr uint8_t kPattern = 0x5A;

}  // namespace

llvm::Value* ArrayGuard::AddArray(const UOp* buffer) {
  const int64_t size = NumElements(buffer->shape());
  sizes_[buffer] = size;
  const uint64_t array_bytes = static_cast<uint64_t>(size) * static_cast<uint64_t>(ItemSize(buffer->dtype()));
  const uint64_t bytes = array_bytes + 2 * kZoneBytes;
  // Where the function begins, so that the zones are filled even if no loop has an iteration.
  llvm::BasicBlock& entry = function_->getEntryBlock();
  llvm::IRBuilder<> at_entry(&entry, entry.begin());
  llvm::Type* byte = at_entry.getInt8Ty();
  llvm::AllocaInst* all = at_entry.CreateAlloca(llvm::ArrayType::get(byte, bytes));
  all->setAlignment(llvm::Align(kZoneBytes));
  at_entry.CreateMemSet(all, at_entry.getInt8(kPattern), bytes, llvm::Align(kZoneBytes));
  llvm::Value* array = at_entry.CreateConstInBoundsGEP1_64(byte, all, kZoneBytes);
  zones_.push_back(all);
  zones_.push_back(at_entry.CreateConstInBoundsGEP1_64(byte, array, array_bytes));
  return array;
}

void ArrayGuard::CheckPlaces(const UOp* storage, llvm::Value* places, llvm::Value* gate) {
  const auto size = sizes_.find(storage);
  if (size == sizes_.end()) return;
  llvm::Value* outside =
      builder_.CreateICmpUGE(places, llvm::ConstantInt::get(places->getType(), static_cast<uint64_t>(size->second)));
  TrapIf(gate == nullptr ? outside : builder_.CreateAnd(outside, gate));
}

// Word by word, and as volatile: the zones are to be read when all else is done.
void ArrayGuard::CheckZones() {
  llvm::Type* word = builder_.getInt64Ty();
  llvm::Value* expected = builder_.getInt64(kPattern * 0x0101010101010101u);
  for (llvm::Value* zone : zones_) {
    for (uint64_t i = 0; i < kZoneWords; ++i) {
      llvm::Value* address = builder_.CreateConstInBoundsGEP1_64(word, zone, i);
      TrapIf(builder_.CreateICmpNE(builder_.CreateAlignedLoad(word, address, llvm::Align(1), true), expected));
    }
  }
}

void ArrayGuard::TrapIf(llvm::Value* fault) {
  llvm::LLVMContext& context = builder_.getContext();
  if (fault->getType()->isVectorTy()) fault = builder_.CreateOrReduce(fault);
  auto* trap = llvm::BasicBlock::Create(context, "outside", function_);
  auto* inside = llvm::BasicBlock::Create(context, "inside", function_);
  builder_.CreateCondBr(fault, trap, inside);
  builder_.SetInsertPoint(trap);
  builder_.CreateIntrinsic(builder_.getVoidTy(), llvm::Intrinsic::trap, {});
  builder_.CreateUnreachable();
  builder_.SetInsertPoint(inside);
}

}  // namespace kiln::compiler
