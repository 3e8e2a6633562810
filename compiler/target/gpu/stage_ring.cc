#include "compiler/target/gpu/stage_ring.h"

#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/Metadata.h"

namespace kiln::compiler {
namespace {

void KeepRolled(llvm::LLVMContext& context, llvm::BranchInst* again) {
  llvm::MDNode* disable = llvm::MDNode::get(context, llvm::MDString::get(context, "llvm.loop.unroll.disable"));
  llvm::MDNode* id = llvm::MDNode::getDistinct(context, {nullptr, disable});
  id->replaceOperandWith(0, id);
  again->setMetadata(llvm::LLVMContext::MD_loop, id);
}

}  // namespace

std::vector<llvm::Value*> EmitStageRing(
    llvm::IRBuilder<>& builder, const StageRing& ring, std::vector<llvm::Value*> sums,
    absl::FunctionRef<void(llvm::Value* iteration, llvm::Value* stage)> copy, absl::FunctionRef<void()> finish,
    absl::FunctionRef<void(llvm::Value* stage, std::vector<llvm::Value*>& sums)> multiply) {
  const auto i32 = [&](int64_t number) { return builder.getInt32(static_cast<uint32_t>(number)); };
  const auto begin = [&](llvm::Value* iteration, llvm::Value* stage) {
    copy(iteration, stage);
    builder.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_commit_group, {});
  };
  // The stage behind `stage` in the ring.
  const auto after = [&](llvm::Value* stage) {
    llvm::Value* next = builder.CreateAdd(stage, i32(ring.bytes));
    return builder.CreateSelect(builder.CreateICmpEQ(next, i32(ring.stages * ring.bytes)), i32(0), next);
  };
  for (int64_t stage = 0; stage + 1 < ring.stages; ++stage) {
    begin(i32(stage), i32(stage * ring.bytes));
    finish();
  }
  llvm::BasicBlock* before = builder.GetInsertBlock();
  llvm::Function* function = before->getParent();
  auto* loop = llvm::BasicBlock::Create(builder.getContext(), "iteration", function);
  auto* done = llvm::BasicBlock::Create(builder.getContext(), "multiplied", function);
  builder.CreateBr(loop);
  builder.SetInsertPoint(loop);
  llvm::PHINode* iteration = builder.CreatePHI(builder.getInt32Ty(), 2, "iteration");
  llvm::PHINode* now = builder.CreatePHI(builder.getInt32Ty(), 2, "now");    // the stage that is multiplied
  llvm::PHINode* next = builder.CreatePHI(builder.getInt32Ty(), 2, "next");  // the one that is copied to
  std::vector<llvm::PHINode*> carried;
  for (llvm::Value*& sum : sums) {
    carried.push_back(builder.CreatePHI(sum->getType(), 2));
    carried.back()->addIncoming(sum, before);
    sum = carried.back();
  }
  builder.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {i32(ring.stages - 2)});
  builder.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier_cta_sync_aligned_all, {}, {i32(0)});
  begin(builder.CreateAdd(iteration, i32(ring.stages - 1)), next);
  multiply(now, sums);
  finish();
  llvm::BasicBlock* end = builder.GetInsertBlock();
  llvm::Value* another = builder.CreateAdd(iteration, i32(1));
  iteration->addIncoming(i32(0), before);
  iteration->addIncoming(another, end);
  now->addIncoming(i32(0), before);
  now->addIncoming(after(now), end);
  next->addIncoming(i32((ring.stages - 1) * ring.bytes), before);
  next->addIncoming(after(next), end);
  for (size_t i = 0; i < sums.size(); ++i) carried[i]->addIncoming(sums[i], end);
  KeepRolled(builder.getContext(),
             builder.CreateCondBr(builder.CreateICmpSLT(another, i32(ring.iterations)), loop, done));
  builder.SetInsertPoint(done);
  // Nothing is under way when the item ends.
  builder.CreateIntrinsic(llvm::Intrinsic::nvvm_cp_async_wait_group, {}, {i32(0)});
  return sums;
}

}  // namespace kiln::compiler
