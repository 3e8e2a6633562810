#include "compiler/target/llvm/aligned_way.h"

#include <algorithm>
#include <vector>

#include "compiler/structure/group_product.h"
#include "compiler/target/llvm/values/values.h"

namespace kiln::compiler {
namespace {

// Parameters that lanes are loaded from, or stored to; or rows of them, that become vectors when iterations are
// unrolled.
std::vector<const UOp*> ParametersOfVectors(const UOp* linear) {
  std::vector<const UOp*> found;
  const auto add = [&](const UOp* param) {
    if (param->op() == Op::PARAM && std::find(found.begin(), found.end(), param) == found.end()) found.push_back(param);
  };
  for (const UOp* uop : linear->src()) {
    if (const auto product = GroupProductOf(uop)) {
      for (const GroupProduct::Side* side : {&product->a, &product->b}) {
        if (NeighboursOf(*side) > 1) add(side->param);
      }
    }
    if ((uop->op() != Op::LOAD && uop->op() != Op::STORE) || uop->src(0)->op() != Op::INDEX) continue;
    const UOp* param = WithoutOrder(uop->src(0)->src(0));
    const bool lanes = NumElements(uop->src(0)->src(1)->shape()) > 1;
    if (lanes) add(param);
  }
  return found;
}

}  // namespace

std::optional<AlignedWay> ChooseAlignedWay(llvm::BasicBlock* entry, const UOp* linear, const KernelAbi& abi) {
  const uint64_t alignment = abi.VectorAlignment();
  const std::vector<const UOp*> wide = ParametersOfVectors(linear);
  if (alignment == 1 || wide.empty()) return std::nullopt;
  llvm::Function* function = entry->getParent();
  llvm::IRBuilder<> builder(entry);
  llvm::Value* addresses = nullptr;
  for (const UOp* param : wide) {
    llvm::Value* pointer = abi.Pointer(builder, function, param->arg_as<BufferArg>().slot);
    llvm::Value* address = builder.CreatePtrToInt(pointer, builder.getInt64Ty());
    addresses = addresses == nullptr ? address : builder.CreateOr(addresses, address);
  }
  llvm::Value* beside = builder.CreateAnd(addresses, alignment - 1);
  auto* aligned = llvm::BasicBlock::Create(entry->getContext(), "aligned", function);
  auto* anywhere = llvm::BasicBlock::Create(entry->getContext(), "anywhere", function);
  builder.CreateCondBr(builder.CreateICmpEQ(beside, builder.getInt64(0)), aligned, anywhere);
  // For what LLVM makes vectors of itself.
  builder.SetInsertPoint(aligned);
  for (const UOp* param : wide) {
    llvm::Value* pointer = abi.Pointer(builder, function, param->arg_as<BufferArg>().slot);
    builder.CreateAlignmentAssumption(function->getParent()->getDataLayout(), pointer,
                                      static_cast<unsigned>(alignment));
  }
  return AlignedWay{aligned, alignment, anywhere};
}

}  // namespace kiln::compiler
