#include "compiler/target/llvm/loop_emitter.h"

#include "llvm/IR/Intrinsics.h"

namespace kiln::compiler {

LoopEmitter::LoopEmitter(llvm::IRBuilder<>& builder, llvm::Function* function, const KernelAbi& abi, const UOp* linear)
    : builder_(builder),
      function_(function),
      stop_(abi.Stop(function)),
      points_(stop_ == nullptr ? StopPoints() : FindStopPoints(linear)) {}

llvm::BasicBlock* LoopEmitter::NewBlock(const char* name) {
  return llvm::BasicBlock::Create(builder_.getContext(), name, function_);
}

EmittedLoop LoopEmitter::Open(const UOp* range, llvm::Value* begin, llvm::Value* end, bool may_be_empty) {
  const auto point = points_.find(range);
  const int64_t every = point == points_.end() ? 0 : point->second;
  llvm::BasicBlock* piece = every > 1 ? NewBlock("piece") : nullptr;
  llvm::BasicBlock* body = NewBlock("loop");
  EmittedLoop loop = {body, nullptr, NewBlock("done"), end, every};
  llvm::BasicBlock* before = builder_.GetInsertBlock();
  llvm::BasicBlock* first = piece == nullptr ? body : piece;
  if (may_be_empty) {
    builder_.CreateCondBr(builder_.CreateICmpSLT(begin, end), first, loop.exit);
  } else {
    builder_.CreateBr(first);
  }
  llvm::Type* i64 = builder_.getInt64Ty();
  if (piece != nullptr) {
    builder_.SetInsertPoint(piece);
    loop.piece = builder_.CreatePHI(i64, 2, "piece");
    loop.piece->addIncoming(begin, before);
    // By what is left, which cannot overflow.
    llvm::Value* left = builder_.CreateSub(end, loop.piece);
    llvm::Value* taken =
        builder_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, left, builder_.getInt64(static_cast<uint64_t>(every)));
    loop.end = builder_.CreateAdd(loop.piece, taken);
    loop.end_of_all = end;
    builder_.CreateBr(body);
    begin = loop.piece;
    before = piece;
  }
  builder_.SetInsertPoint(body);
  loop.iteration = builder_.CreatePHI(i64, 2, "i");
  loop.iteration->addIncoming(begin, before);
  return loop;
}

llvm::BranchInst* LoopEmitter::Close(const EmittedLoop& loop) {
  llvm::Value* next = builder_.CreateAdd(loop.iteration, builder_.getInt64(1), "", true, true);
  llvm::Value* more = builder_.CreateICmpSLT(next, loop.end);
  llvm::BranchInst* again = nullptr;
  if (loop.every == 1) {
    llvm::BasicBlock* look = NewBlock("look");
    again = builder_.CreateCondBr(more, look, loop.exit);
    builder_.SetInsertPoint(look);
    Look(loop.body);
    loop.iteration->addIncoming(next, look);
  } else {
    loop.iteration->addIncoming(next, builder_.GetInsertBlock());
    llvm::BasicBlock* look = loop.piece == nullptr ? loop.exit : NewBlock("look");
    again = builder_.CreateCondBr(more, loop.body, look);
    if (loop.piece != nullptr) {
      llvm::BasicBlock* rest = NewBlock("rest");
      builder_.SetInsertPoint(look);
      builder_.CreateCondBr(builder_.CreateICmpSLT(next, loop.end_of_all), rest, loop.exit);
      builder_.SetInsertPoint(rest);
      Look(loop.piece->getParent());
      loop.piece->addIncoming(next, rest);
    }
  }
  builder_.SetInsertPoint(loop.exit);
  return again;
}

void LoopEmitter::Look(llvm::BasicBlock* on) {
  if (leave_ == nullptr) leave_ = NewBlock("leave");
  llvm::Type* byte = builder_.getInt8Ty();
  llvm::Value* set = nullptr;
  for (const uint32_t which : {0u, 1u}) {
    llvm::Type* pointer = builder_.getPtrTy();
    llvm::Value* address = builder_.CreateLoad(pointer, builder_.CreateConstInBoundsGEP1_64(pointer, stop_, which));
    llvm::LoadInst* flag = builder_.CreateLoad(byte, address);
    flag->setAtomic(llvm::AtomicOrdering::Monotonic);
    flag->setAlignment(llvm::Align(1));
    set = set == nullptr ? flag : builder_.CreateOr(set, flag);
  }
  builder_.CreateCondBr(builder_.CreateICmpEQ(set, builder_.getInt8(0)), on, leave_);
}

void LoopEmitter::Finish() {
  if (leave_ == nullptr) return;
  builder_.CreateBr(leave_);
  builder_.SetInsertPoint(leave_);
}

}  // namespace kiln::compiler
