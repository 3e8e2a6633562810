#include "compiler/target/llvm/kernel_abi.h"

#include "base/check.h"
#include "llvm/IR/DerivedTypes.h"

namespace kiln::compiler {
namespace {

class Cpu : public KernelAbi {
 public:
  llvm::Function* Declare(llvm::Module& module, const UOp*, const std::string& symbol) const override {
    llvm::LLVMContext& context = module.getContext();
    llvm::Type* i64 = llvm::Type::getInt64Ty(context);
    llvm::Type* pointer = llvm::PointerType::get(context, 0);
    auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context), {pointer, i64, i64, pointer}, false);
    auto* function = llvm::Function::Create(type, llvm::Function::ExternalLinkage, symbol, module);
    function->addFnAttr(llvm::Attribute::NoUnwind);
    return function;
  }

  llvm::Value* Pointer(llvm::IRBuilder<>& builder, llvm::Function* function, uint32_t slot) const override {
    llvm::Type* pointer = builder.getPtrTy();
    return builder.CreateLoad(pointer, builder.CreateConstInBoundsGEP1_64(pointer, function->getArg(0), slot));
  }

  llvm::Value* Integer(llvm::IRBuilder<>& builder, llvm::Function* function, uint32_t slot) const override {
    llvm::Type* i64 = builder.getInt64Ty();
    return builder.CreateLoad(i64, builder.CreateConstInBoundsGEP1_64(i64, function->getArg(0), slot));
  }

  std::pair<llvm::Value*, llvm::Value*> Share(llvm::Function* function) const override {
    return {function->getArg(1), function->getArg(2)};
  }

  llvm::Value* Stop(llvm::Function* function) const override { return function->getArg(3); }

  // Work groups are loops here (program/work_groups.h).
  llvm::Value* Coordinate(llvm::IRBuilder<>&, absl::string_view) const override { KILN_CHECK(false); }
  void Barrier(llvm::IRBuilder<>&) const override { KILN_CHECK(false); }
  llvm::Value* Wmma(llvm::IRBuilder<>&, const WmmaArg&, llvm::Value*, llvm::Value*, llvm::Value*) const override {
    KILN_CHECK(false);
  }
  std::vector<llvm::Value*> Multiply(llvm::IRBuilder<>&, const GroupProduct&, const ProductSide&, const ProductSide&,
                                     llvm::Value*, uint64_t) const override {
    KILN_CHECK(false);
  }
  int64_t SharedBytesOf(const GroupProduct&) const override { KILN_CHECK(false); }
  std::array<int64_t, 3> Items(const UOp*) const override { KILN_CHECK(false); }
  llvm::Value* Exchange(llvm::IRBuilder<>&, llvm::Value*, int64_t, llvm::Value*) const override { KILN_CHECK(false); }
  uint64_t VectorAlignment() const override { return 1; }
  llvm::Value* SharedArray(llvm::Function*, llvm::Type*) const override { return nullptr; }
  bool JumpsOverGates() const override { return false; }
};

}  // namespace

const KernelAbi& CpuAbi() {
  static const Cpu abi;
  return abi;
}

}  // namespace kiln::compiler
