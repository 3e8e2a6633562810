#include "tests/support/amd/retarget.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "tests/support/amd/wave_ops.h"

namespace kiln::testing::amd {
namespace {

constexpr unsigned kSharedSpace = 3;

class Retargeting {
 public:
  explicit Retargeting(llvm::Module& module) : module_(module), builder_(module.getContext()) {}

  absl::Status Rewrite(llvm::Function& function, HostKernel& kernel) {
    function.setCallingConv(llvm::CallingConv::C);
    function.setAttributes({});
    std::vector<llvm::CallInst*> calls;
    std::vector<llvm::AllocaInst*> arrays;
    for (llvm::Instruction& instruction : llvm::instructions(function)) {
      if (auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction)) calls.push_back(call);
      if (auto* array = llvm::dyn_cast<llvm::AllocaInst>(&instruction)) arrays.push_back(array);
    }
    for (llvm::CallInst* call : calls) {
      if (call->getIntrinsicID() == llvm::Intrinsic::lifetime_start ||
          call->getIntrinsicID() == llvm::Intrinsic::lifetime_end) {
        call->eraseFromParent();  // it wants the array itself
        continue;
      }
      const llvm::Function* called = call->getCalledFunction();
      if (called == nullptr || !called->getName().starts_with("llvm.amdgcn.")) continue;
      KILN_RETURN_IF_ERROR(Replace(*call, kernel));
    }
    for (llvm::AllocaInst* array : arrays) MoveToStack(*array);
    return absl::OkStatus();
  }

  // What calls `function` with its arguments out of an array.
  std::string AddEntry(llvm::Function& function) {
    const std::string name = absl::StrCat(function.getName().str(), ".entry");
    auto* type = llvm::FunctionType::get(builder_.getVoidTy(), {builder_.getPtrTy()}, false);
    auto* entry = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
    builder_.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "", entry));
    std::vector<llvm::Value*> arguments;
    for (const llvm::Argument& argument : function.args()) {
      llvm::Value* place = builder_.CreateConstGEP1_64(builder_.getInt64Ty(), entry->getArg(0), argument.getArgNo());
      arguments.push_back(builder_.CreateLoad(argument.getType(), place));
    }
    builder_.CreateCall(&function, arguments);
    builder_.CreateRetVoid();
    return name;
  }

 private:
  llvm::Value* Host(const char* name, llvm::Type* result, llvm::ArrayRef<llvm::Value*> arguments) {
    std::vector<llvm::Type*> types;
    for (llvm::Value* argument : arguments) types.push_back(argument->getType());
    return builder_.CreateCall(module_.getOrInsertFunction(name, llvm::FunctionType::get(result, types, false)),
                               arguments);
  }

  absl::Status Replace(llvm::CallInst& call, HostKernel& kernel) {
    builder_.SetInsertPoint(&call);
    const std::string name = call.getCalledFunction()->getName().str();
    absl::string_view axis = name;
    const bool item = absl::ConsumePrefix(&axis, "llvm.amdgcn.workitem.id.");
    if (item || absl::ConsumePrefix(&axis, "llvm.amdgcn.workgroup.id.")) {
      const auto number = static_cast<uint32_t>(axis[0] - 'x' + (item ? 0 : 3));
      call.replaceAllUsesWith(Host("kiln_amd_coordinate", builder_.getInt32Ty(), {builder_.getInt32(number)}));
    } else if (name == "llvm.amdgcn.s.barrier") {
      Host("kiln_amd_barrier", builder_.getVoidTy(), {builder_.getInt32(sites_++)});
      kernel.meets = true;
    } else {
      const WaveOp* op = FindWaveOp(name);
      if (op == nullptr)
        return absl::InvalidArgumentError(absl::StrCat("an instruction that this machine does not know: ", name));
      call.replaceAllUsesWith(Together(call, static_cast<uint32_t>(op - WaveOps().data())));
      kernel.meets = true;
    }
    call.eraseFromParent();
    return absl::OkStatus();
  }

  // Operands and result go by memory.
  llvm::Value* Together(llvm::CallInst& call, uint32_t op) {
    const auto count = static_cast<unsigned>(call.arg_size());
    llvm::Value* places = OnStack(call, llvm::ArrayType::get(builder_.getPtrTy(), count));
    for (unsigned i = 0; i < count; ++i) {
      llvm::Value* operand = call.getArgOperand(i);
      if (operand->getType()->isIntegerTy(1)) operand = builder_.CreateZExt(operand, builder_.getInt8Ty());
      llvm::Value* place = OnStack(call, operand->getType());
      builder_.CreateStore(operand, place);
      builder_.CreateStore(place, builder_.CreateConstGEP1_64(builder_.getPtrTy(), places, i));
    }
    llvm::Value* result = OnStack(call, call.getType());
    Host("kiln_amd_wave", builder_.getVoidTy(), {builder_.getInt32(sites_++), builder_.getInt32(op), result, places});
    return builder_.CreateLoad(call.getType(), result);
  }

  llvm::Value* OnStack(llvm::CallInst& call, llvm::Type* type) {
    llvm::BasicBlock& entry = call.getFunction()->getEntryBlock();
    return llvm::IRBuilder<>(&entry, entry.begin()).CreateAlloca(type);
  }

  // Private memory is in a space of its own on AMD's GPUs.
  void MoveToStack(llvm::AllocaInst& array) {
    if (array.getAddressSpace() == 0) return;
    builder_.SetInsertPoint(&array);
    llvm::AllocaInst* moved = builder_.CreateAlloca(array.getAllocatedType(), 0u, array.getArraySize());
    moved->setAlignment(array.getAlign());
    array.replaceAllUsesWith(builder_.CreateAddrSpaceCast(moved, array.getType()));
    array.eraseFromParent();
  }

  llvm::Module& module_;
  llvm::IRBuilder<> builder_;
  uint32_t sites_ = 0;
};

// Shared memory is the group's, who has it where accesses beyond its ends are seen.
void TakeSharedArrays(llvm::Module& module, std::map<std::string, HostKernel>& kernels) {
  for (llvm::GlobalVariable& array : module.globals()) {
    if (array.getAddressSpace() != kSharedSpace) continue;
    const uint64_t bytes = module.getDataLayout().getTypeAllocSize(array.getValueType());
    array.setName(absl::StrCat("kiln_shared_", array.getName().str()));
    array.setInitializer(nullptr);
    array.setLinkage(llvm::GlobalValue::ExternalLinkage);
    array.setDSOLocal(false);
    for (const llvm::User* user : array.users()) {
      const auto* instruction = llvm::dyn_cast<llvm::Instruction>(user);
      if (instruction == nullptr) continue;
      HostKernel& kernel = kernels[instruction->getFunction()->getName().str()];
      const std::string symbol = array.getName().str();
      if (kernel.shared.empty() || kernel.shared.back().symbol != symbol)
        kernel.shared.push_back({symbol, bytes, array.getAlign().valueOrOne().value()});
    }
  }
}

// Of an attribute of AMD's, "LEAST,MOST".
uint32_t MaxItems(const llvm::Function& function) {
  const llvm::StringRef range = function.getFnAttribute("amdgpu-flat-work-group-size").getValueAsString();
  uint32_t most = 0;
  return range.rsplit(',').second.getAsInteger(10, most) ? 0 : most;
}

}  // namespace

absl::StatusOr<std::map<std::string, HostKernel>> RetargetToHost(llvm::Module& module,
                                                                 const llvm::TargetMachine& host) {
  module.setTargetTriple(host.getTargetTriple());
  module.setDataLayout(host.createDataLayout());
  std::map<std::string, HostKernel> kernels;
  TakeSharedArrays(module, kernels);
  Retargeting retargeting(module);
  std::vector<llvm::Function*> functions;
  for (llvm::Function& function : module) {
    if (!function.isDeclaration()) functions.push_back(&function);
  }
  for (llvm::Function* function : functions) {
    HostKernel& kernel = kernels[function->getName().str()];
    kernel.max_items = MaxItems(*function);
    KILN_RETURN_IF_ERROR(retargeting.Rewrite(*function, kernel));
    kernel.parameters = function->arg_size();
    kernel.entry = retargeting.AddEntry(*function);
  }
  std::string faults;
  llvm::raw_string_ostream stream(faults);
  if (llvm::verifyModule(module, &stream)) return absl::InvalidArgumentError(faults);
  return kernels;
}

}  // namespace kiln::testing::amd
