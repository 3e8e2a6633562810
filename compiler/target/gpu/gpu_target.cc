// The GPU targets: LLVM, to PTX for NVIDIA's drivers and to code objects for AMD's.
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/program/zero_shared.h"
#include "compiler/structure/code_text.h"
#include "compiler/structure/tf32.h"
#include "compiler/target/gpu/architectures.h"
#include "compiler/target/gpu/dynamic_shared.h"
#include "compiler/target/gpu/gpu_abi.h"
#include "compiler/target/gpu/launch.h"
#include "compiler/target/gpu/link_code_object.h"
#include "compiler/target/gpu/tensor_cores.h"
#include "compiler/target/llvm/codegen.h"
#include "compiler/target/llvm/kernel_emitter.h"
#include "compiler/target/llvm/program_emitter.h"
#include "compiler/target/target.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace kiln::compiler {
namespace {

class GpuCodeGenerator : public CodeGenerator {
 public:
  GpuCodeGenerator(std::unique_ptr<llvm::TargetMachine> machine, const v1::Target& target, const Options& options)
      : nvidia_(target.kind() == v1::Target::NVPTX),
        target_(target),
        machine_(std::move(machine)),
        abi_(MakeGpuAbi(target)),
        module_("kiln", context_) {
    CollectFaults(context_, &faults_);
    emit_.abi = abi_.get();
    emit_.contraction = options.contraction;
    module_.setDataLayout(machine_->createDataLayout());
    module_.setTargetTriple(machine_->getTargetTriple());
  }

  Abilities abilities() const override { return {.lanes = false, .work_items = true}; }

  absl::Status AddKernel(UOp* linear, const std::string& symbol) override {
    return Added(linear, EmitKernel(module_, linear, symbol, emit_));
  }

  absl::StatusOr<v1::Launch> LaunchOf(const UOp* linear) override { return GpuLaunch(linear, target_); }

  bool HasWmma(const WmmaArg& arg) const override {
    const bool rounds = arg.in == DType::kFloat32 && target_.kind() == v1::Target::NVPTX;
    return HasTensorCore(target_.arch(), arg) && (!rounds || MayRoundToTf32(target_));
  }

  absl::StatusOr<UOp*> SelectValues(Graph& graph, UOp* linear) override {
    return ZeroShared(graph, ZeroRegisters(graph, linear));
  }

  absl::StatusOr<UOp*> SelectListed(Graph& graph, UOp* linear, UOp* program) override {
    if (!SourceOf(program).empty())
      return graph.Locate(MakeError(v1::UNSUPPORTED_OP, "a client's own SOURCE is for devices of its language"),
                          program);
    for (UOp* uop : linear->src()) {
      if (uop->op() == Op::CUSTOM || uop->op() == Op::CUSTOMI)
        return graph.Locate(
            MakeError(v1::UNSUPPORTED_OP, "a client's own code is for the CPU and for source languages"), program);
    }
    return linear;
  }

  absl::Status AddProgram(UOp* linear, const std::string& symbol) override {
    KILN_ASSIGN_OR_RETURN(llvm::Function * function, EmitProgram(module_, linear, symbol, emit_));
    if (llvm::verifyFunction(*function)) return MakeError(v1::INTERNAL_FAULT, "a program became malformed LLVM IR");
    return Added(linear, function);
  }

  std::vector<absl::string_view> languages() const override { return {"llvm", "source"}; }

  std::string Source(absl::string_view language) override {
    if (language != "llvm") return Assembly();
    OptimizeOnce();
    return ModuleText(module_);
  }

  std::string Assembly() override {
    std::string text;
    const std::unique_ptr<llvm::Module> copy = Optimized();
    return Recovered([&] { text = EmitAssembly(*copy, *machine_); }).ok() ? text : "";
  }

  absl::StatusOr<std::string> Object() override {
    std::string object;
    OptimizeOnce();
    KILN_RETURN_IF_ERROR(
        Recovered([&] { object = nvidia_ ? EmitAssembly(module_, *machine_) : EmitObject(module_, *machine_); }));
    return nvidia_ ? object : LinkCodeObject(object);
  }

 private:
  absl::Status Added(const UOp* linear, llvm::Function* function) {
    optimized_ = false;
    for (const UOp* uop : linear->src()) {
      if (uop->op() == Op::WMMA)
        KILN_RETURN_IF_ERROR(TakeFeature(FeatureFor(target_.arch(), uop->arg_as<WmmaArg>().in)));
    }
    KILN_ASSIGN_OR_RETURN(const v1::Launch launch, GpuLaunch(linear, target_));
    if (launch.dynamic_shared_bytes() > 0) MakeSharedDynamic(*function);
    return absl::OkStatus();
  }

  absl::Status TakeFeature(absl::string_view feature) {
    if (feature.empty() || absl::StrContains(machine_->getTargetFeatureString().str(), feature))
      return absl::OkStatus();
    v1::Target target = WithoutTf32(target_);
    target.add_features(std::string(feature));
    KILN_ASSIGN_OR_RETURN(machine_, MakeTargetMachine(target));
    return absl::OkStatus();
  }

  std::unique_ptr<llvm::Module> Optimized() {
    OptimizeOnce();
    return llvm::CloneModule(module_);
  }

  // What these back ends have no instruction for ends the process, unless it is caught.
  absl::Status Recovered(llvm::function_ref<void()> emit) {
    llvm::CrashRecoveryContext::Enable();
    llvm::CrashRecoveryContext recovery;
    faults_.clear();
    if (recovery.RunSafely(emit) && faults_.empty()) return absl::OkStatus();
    return MakeError(v1::UNSUPPORTED_OP,
                     absl::StrCat("LLVM has no code for an operation on ", machine_->getTargetCPU().str(),
                                  faults_.empty() ? "" : ": ", faults_));
  }

  void OptimizeOnce() {
    if (!optimized_) Optimize(module_, *machine_);
    optimized_ = true;
  }

  const bool nvidia_;
  const v1::Target target_;
  std::string faults_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  const std::unique_ptr<KernelAbi> abi_;
  llvm::Module module_;
  EmitOptions emit_;
  bool optimized_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeGpuCodeGenerator(const v1::Target& target, const Options& options) {
  if (FindGpuArchitecture(target.arch()) == nullptr)
    return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("no code generator for ", target.arch(), "; there are those for ",
                                                      GpuArchitectureNames()));
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, MakeTargetMachine(WithoutTf32(target)));
  return std::make_unique<GpuCodeGenerator>(std::move(machine), target, options);
}

}  // namespace kiln::compiler
