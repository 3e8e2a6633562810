#include "compiler/target/gpu/dynamic_shared.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "compiler/target/gpu/gpu_abi.h"
#include "compiler/target/gpu/launch.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"

namespace kiln::compiler {

void MakeSharedDynamic(llvm::Function& function) {
  llvm::Module& module = *function.getParent();
  llvm::Type* byte = llvm::Type::getInt8Ty(module.getContext());
  const std::string prefix = SharedArrayName(function);
  std::vector<llvm::GlobalVariable*> arrays;
  for (llvm::GlobalVariable& global : module.globals()) {
    if (absl::StartsWith(std::string(global.getName()), prefix)) arrays.push_back(&global);
  }
  // PTX's names have no dots; LLVM gives other names only to what no other module sees.
  auto* all = new llvm::GlobalVariable(  // the module's
      module, llvm::ArrayType::get(byte, 0), /*isConstant=*/false, llvm::GlobalValue::ExternalLinkage, nullptr,
      absl::StrCat(function.getName().str(), "_dynamic"), nullptr, llvm::GlobalValue::NotThreadLocal, kSharedSpace);
  all->setAlignment(llvm::Align(kSharedAlignment));
  uint64_t offset = 0;
  for (llvm::GlobalVariable* array : arrays) {
    llvm::Constant* place = llvm::ConstantInt::get(llvm::Type::getInt64Ty(module.getContext()), offset);
    array->replaceAllUsesWith(llvm::ConstantExpr::getGetElementPtr(byte, all, place));
    const uint64_t bytes = module.getDataLayout().getTypeAllocSize(array->getValueType());
    offset += (bytes + kSharedAlignment - 1) / kSharedAlignment * kSharedAlignment;
    array->eraseFromParent();
  }
}

}  // namespace kiln::compiler
