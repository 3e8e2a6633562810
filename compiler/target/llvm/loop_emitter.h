// Loops in LLVM's IR, and where they look whether to stop.
//
// The test stands at the end, and at the beginning too where there may be no iteration. A loop
// that looks in every iteration does so after that test. One that looks once in many is cut into
// pieces: the loop itself runs to the end of a piece, as if that were its own, and what is around
// it looks and goes on to the next. So what is inside is the same code as without. Tested by
// tests/conformance/programs/long_loops_test and tests/hostile/stop_test.
#ifndef KILN_COMPILER_TARGET_LLVM_LOOP_EMITTER_H_
#define KILN_COMPILER_TARGET_LLVM_LOOP_EMITTER_H_

#include "compiler/structure/stop_points.h"
#include "compiler/target/llvm/kernel_abi.h"
#include "llvm/IR/IRBuilder.h"

namespace kiln::compiler {

struct EmittedLoop {
  llvm::BasicBlock* body;
  llvm::PHINode* iteration;  // an i64
  llvm::BasicBlock* exit;
  llvm::Value* end;   // of a piece, if there are pieces
  int64_t every = 0;  // 0: it does not look
  // Of a loop in pieces.
  llvm::PHINode* piece = nullptr;  // its first iteration
  llvm::Value* end_of_all = nullptr;
};

class LoopEmitter {
 public:
  // All must outlive the object. A target whose ABI has no stop gets none.
  LoopEmitter(llvm::IRBuilder<>& builder, llvm::Function* function, const KernelAbi& abi, const UOp* linear);

  // From `begin` up to, without, `end`, i64s. Goes on in its body.
  EmittedLoop Open(const UOp* range, llvm::Value* begin, llvm::Value* end, bool may_be_empty);
  // Goes on behind the loop. Returns the branch back to its body.
  llvm::BranchInst* Close(const EmittedLoop& loop);
  // At the end of the function, to which a loop that stops jumps: goes on there.
  void Finish();

 private:
  llvm::BasicBlock* NewBlock(const char* name);
  // Goes to `on`, or leaves.
  void Look(llvm::BasicBlock* on);

  llvm::IRBuilder<>& builder_;
  llvm::Function* function_;
  llvm::Value* const stop_;  // null: there is none
  const StopPoints points_;
  llvm::BasicBlock* leave_ = nullptr;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_LOOP_EMITTER_H_
