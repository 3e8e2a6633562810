#include "compiler/target/llvm/large_code.h"

#include <iterator>

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/IR/Instructions.h"

namespace kiln::compiler {
namespace {

// Whether LLVM's passes see sums in it: an integer made of integers.
bool IsIndexArithmetic(const llvm::Instruction& instruction) {
  return instruction.getType()->isIntegerTy() &&
         llvm::isa<llvm::BinaryOperator, llvm::CastInst, llvm::SelectInst>(instruction);
}

}  // namespace

size_t CutIndexTrees(llvm::Module& module) {
  size_t cuts = 0;
  for (llvm::Function& function : module) {
    if (function.isDeclaration()) continue;
    llvm::DenseMap<const llvm::Value*, size_t> paths;
    // Blocks after those that they are reached from, but for loops' ways back: what these bring is a PHI's, and new.
    for (llvm::BasicBlock* block : llvm::ReversePostOrderTraversal<llvm::Function*>(&function)) {
      for (auto next = block->begin(); next != block->end();) {
        llvm::Instruction& instruction = *next++;
        if (!IsIndexArithmetic(instruction)) continue;
        size_t sum = 0;
        for (const llvm::Value* operand : instruction.operands()) {
          const auto found = paths.find(operand);
          sum += found == paths.end() ? 1 : found->second;
        }
        if (sum > kMaxPaths) {
          auto* frozen = new llvm::FreezeInst(&instruction, "", next);
          instruction.replaceUsesWithIf(frozen, [frozen](const llvm::Use& use) { return use.getUser() != frozen; });
          paths[frozen] = 1;
          ++cuts;
        }
        paths[&instruction] = sum;
      }
    }
  }
  return cuts;
}

size_t SplitLongBlocks(llvm::Module& module) {
  size_t parts = 0;
  for (llvm::Function& function : module) {
    bool split = false;
    for (auto block = function.begin(); block != function.end(); ++block) {
      if (block->size() <= kMaxBlockInstructions) continue;
      // The rest is the next block, and looked at next. PHIs stay together.
      auto at = std::next(block->begin(), kMaxBlockInstructions - 1);
      while (llvm::isa<llvm::PHINode>(*at)) ++at;
      block->splitBasicBlock(at);
      split = true;
      ++parts;
    }
    if (!split) continue;
    // Passes that would join the parts again leave such a function alone.
    function.removeFnAttr(llvm::Attribute::AlwaysInline);
    function.addFnAttr(llvm::Attribute::NoInline);
    function.addFnAttr(llvm::Attribute::OptimizeNone);
  }
  return parts;
}

}  // namespace kiln::compiler
