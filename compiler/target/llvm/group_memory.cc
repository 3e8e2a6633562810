#include "compiler/target/llvm/group_memory.h"

#include "base/check.h"
#include "compiler/target/llvm/group_reduce.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {

GroupMemory GroupMemoryOf(const UOp* linear, llvm::Function* function, const KernelAbi& abi) {
  GroupMemory memory = {ReduceMemoryOf(linear, function, abi), nullptr};
  for (const UOp* uop : linear->src()) {
    const auto product = GroupProductOf(uop);
    if (!product.has_value()) continue;
    const auto bytes = static_cast<uint64_t>(abi.SharedBytesOf(*product));
    llvm::Type* byte = llvm::Type::getInt8Ty(function->getContext());
    memory.product = abi.SharedArray(function, llvm::ArrayType::get(byte, bytes));
    break;  // a kernel has one
  }
  return memory;
}

std::vector<Element> InLanes(llvm::IRBuilder<>& builder, const std::vector<llvm::Value*>& scalars, int64_t lanes) {
  std::vector<Element> rows;
  KILN_CHECK(scalars.size() % static_cast<size_t>(lanes) == 0);
  for (size_t at = 0; at < scalars.size(); at += static_cast<size_t>(lanes)) {
    llvm::Value* row = scalars[at];
    if (lanes > 1) {
      row = llvm::PoisonValue::get(llvm::FixedVectorType::get(row->getType(), static_cast<unsigned>(lanes)));
      for (size_t lane = 0; lane < static_cast<size_t>(lanes); ++lane)
        row = builder.CreateInsertElement(row, scalars[at + lane], uint64_t{lane});
    }
    rows.push_back({row});
  }
  return rows;
}

}  // namespace kiln::compiler
