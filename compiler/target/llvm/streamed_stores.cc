#include "compiler/target/llvm/streamed_stores.h"

#include <set>
#include <vector>

#include "compiler/target/llvm/kernel_emitter.h"
#include "compiler/target/llvm/values/values.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/TargetParser/Triple.h"

namespace kiln::compiler {
namespace {

const UOp* StorageOf(const UOp* place) {
  while (place->op() == Op::AFTER || place->op() == Op::INDEX) place = place->src(0);
  return place;
}

}  // namespace

absl::flat_hash_set<const UOp*> StreamedParameters(const UOp* linear, const v1::Target& target) {
  absl::flat_hash_set<const UOp*> streamed, others;
  const auto far = 2 * static_cast<int64_t>(target.tuning().l3_bytes());
  if (far == 0 || !llvm::Triple(target.triple()).isX86()) return {};
  for (const UOp* uop : linear->src()) {
    if (uop->op() == Op::LOAD) others.insert(StorageOf(uop->src(0)));
    if (uop->op() != Op::STORE) continue;
    const UOp* storage = StorageOf(uop->src(0));
    if (storage->op() != Op::PARAM || !IsConst(storage->shape())) continue;
    const int64_t item = ItemSize(storage->dtype());
    const bool lines = LanesOf(uop->src(0)->shape()) * item % kLineBytes == 0;
    const bool whole = lines && uop->src().size() < 3;
    (whole && NumElements(storage->shape()) * item > far ? streamed : others).insert(storage);
  }
  for (const UOp* storage : others) streamed.erase(storage);
  return streamed;
}

llvm::Function* EmitChoice(llvm::Module& module, const std::string& symbol,
                           const absl::flat_hash_set<const UOp*>& streamed, llvm::Function* streaming,
                           llvm::Function* plain) {
  llvm::Function* function = CpuAbi().Declare(module, nullptr, symbol);
  llvm::LLVMContext& context = module.getContext();
  llvm::IRBuilder<> builder(llvm::BasicBlock::Create(context, "entry", function));
  llvm::Value* places = builder.getInt64(0);
  std::set<uint32_t> slots;  // in order: the same kernel is the same code
  for (const UOp* param : streamed) slots.insert(param->arg_as<BufferArg>().slot);
  for (const uint32_t slot : slots) {
    llvm::Value* address = builder.CreateConstInBoundsGEP1_64(builder.getPtrTy(), function->getArg(0), slot);
    places = builder.CreateOr(places, builder.CreateLoad(builder.getInt64Ty(), address));
  }
  auto* lines = llvm::BasicBlock::Create(context, "lines", function);
  auto* others = llvm::BasicBlock::Create(context, "others", function);
  llvm::Value* inside = builder.CreateAnd(places, builder.getInt64(kLineBytes - 1));
  builder.CreateCondBr(builder.CreateICmpEQ(inside, builder.getInt64(0)), lines, others);
  for (const auto& [block, version] : {std::pair{lines, streaming}, std::pair{others, plain}}) {
    version->setLinkage(llvm::Function::InternalLinkage);
    builder.SetInsertPoint(block);
    std::vector<llvm::Value*> arguments;
    for (llvm::Argument& argument : function->args()) arguments.push_back(&argument);
    builder.CreateCall(version, arguments)->setTailCall();
    builder.CreateRetVoid();
  }
  return function;
}

}  // namespace kiln::compiler
