#include "compiler/target/llvm/unroll_hint.h"

#include <numeric>

#include "llvm/IR/Constants.h"
#include "llvm/IR/Metadata.h"
#include "llvm/IR/Type.h"

namespace kiln::compiler {
namespace {

constexpr int64_t kUnrollCount = 4;
constexpr size_t kLongBody = 400;  // instructions

}  // namespace

void RequestUnroll(const UOp* range, llvm::BranchInst* again) {
  if (!range->src(0)->IsConst() || again->getParent()->size() > kLongBody) return;
  const int64_t iterations = std::gcd(range->src(0)->const_int(), kUnrollCount);
  if (iterations == 1) return;
  llvm::LLVMContext& context = again->getContext();
  llvm::Constant* number = llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<uint64_t>(iterations));
  llvm::Metadata* count[] = {llvm::MDString::get(context, "llvm.loop.unroll.count"),
                             llvm::ConstantAsMetadata::get(number)};
  llvm::MDNode* loop = llvm::MDNode::getDistinct(context, {nullptr, llvm::MDNode::get(context, count)});
  loop->replaceOperandWith(0, loop);
  again->setMetadata(llvm::LLVMContext::MD_loop, loop);
}

}  // namespace kiln::compiler
