#include "compiler/target/llvm/large_code.h"

#include <gtest/gtest.h>

#include <memory>

#include "compiler/target/llvm/codegen.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Verifier.h"
#include "llvm/TargetParser/Host.h"

namespace kiln::compiler {
namespace {

class LargeCode : public testing::Test {
 protected:
  // void f(ptr): for i of 100: f32 at ptr[index(i)] = 1
  template <typename Index>
  void MakeLoop(const Index& index) {
    llvm::IRBuilder<> b(context_);
    auto* type = llvm::FunctionType::get(b.getVoidTy(), {b.getPtrTy()}, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, "f", module_);
    auto* entry = llvm::BasicBlock::Create(context_, "", function_);
    auto* loop = llvm::BasicBlock::Create(context_, "", function_);
    auto* end = llvm::BasicBlock::Create(context_, "", function_);
    b.SetInsertPoint(entry);
    b.CreateBr(loop);
    b.SetInsertPoint(loop);
    llvm::PHINode* i = b.CreatePHI(b.getInt64Ty(), 2);
    i->addIncoming(b.getInt64(0), entry);
    b.CreateStore(llvm::ConstantFP::get(b.getFloatTy(), 1),
                  b.CreateGEP(b.getFloatTy(), function_->getArg(0), index(b, i)));
    llvm::Value* next = b.CreateAdd(i, b.getInt64(1));
    i->addIncoming(next, loop);
    b.CreateCondBr(b.CreateICmpULT(next, b.getInt64(100)), loop, end);
    b.SetInsertPoint(end);
    b.CreateRetVoid();
  }

  size_t Count(unsigned opcode) const {
    size_t count = 0;
    for (const llvm::BasicBlock& block : *function_)
      for (const llvm::Instruction& instruction : block) count += instruction.getOpcode() == opcode;
    return count;
  }

  llvm::LLVMContext context_;
  llvm::Module module_{"", context_};
  llvm::Function* function_ = nullptr;
};

TEST_F(LargeCode, SumsOfTheTwoBeforeAreCutAndSoonTranslated) {
  MakeLoop([](llvm::IRBuilder<>& b, llvm::Value* i) {
    llvm::Value *last = i, *sum = b.CreateAdd(i, b.getInt64(3));
    for (int k = 0; k < 200; ++k) {
      llvm::Value* next = b.CreateURem(b.CreateAdd(sum, last), b.getInt64(4000 - k));
      last = sum;
      sum = next;
    }
    return sum;
  });
  v1::Target target;
  target.set_triple(llvm::sys::getDefaultTargetTriple());
  const auto machine = MakeTargetMachine(target);
  ASSERT_TRUE(machine.ok()) << machine.status();
  module_.setDataLayout((*machine)->createDataLayout());
  const size_t cuts = CutIndexTrees(module_);
  EXPECT_EQ(Count(llvm::Instruction::Freeze), cuts);
  EXPECT_GE(cuts, 15u);  // some ten sums of the sequence have 250 paths
  EXPECT_LE(cuts, 100u);
  EXPECT_FALSE(llvm::verifyModule(module_));
  EXPECT_FALSE(EmitObject(module_, **machine).empty());  // uncut, not in a lifetime
}

TEST_F(LargeCode, OrdinaryCodeIsLeftAsItIs) {
  MakeLoop([](llvm::IRBuilder<>& b, llvm::Value* i) {
    for (int k = 0; k < 100; ++k) i = b.CreateAdd(b.CreateMul(i, b.getInt64(3)), b.getInt64(k));
    return i;
  });
  EXPECT_EQ(CutIndexTrees(module_), 0u);
  EXPECT_EQ(SplitLongBlocks(module_), 0u);
  EXPECT_EQ(Count(llvm::Instruction::Freeze), 0u);
  EXPECT_FALSE(function_->hasFnAttribute(llvm::Attribute::OptimizeNone));
}

TEST_F(LargeCode, ALongBlockBecomesParts) {
  MakeLoop([](llvm::IRBuilder<>& b, llvm::Value* i) {
    for (size_t k = 0; k < 3 * kMaxBlockInstructions; ++k) i = b.CreateXor(i, b.getInt64(k + 1));
    return i;
  });
  EXPECT_EQ(SplitLongBlocks(module_), 3u);
  EXPECT_EQ(function_->size(), 6u);
  for (const llvm::BasicBlock& block : *function_) EXPECT_LE(block.size(), kMaxBlockInstructions);
  EXPECT_TRUE(function_->hasFnAttribute(llvm::Attribute::OptimizeNone));
  EXPECT_FALSE(llvm::verifyModule(module_));
  EXPECT_EQ(SplitLongBlocks(module_), 0u);
}

}  // namespace
}  // namespace kiln::compiler
