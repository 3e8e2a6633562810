// The GPU targets: LLVM, to PTX for NVIDIA's drivers and to relocatable objects for AMD's.
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/code_text.h"
#include "compiler/kernel/zero_shared.h"
#include "compiler/target/gpu/gpu_abi.h"
#include "compiler/target/llvm/codegen.h"
#include "compiler/target/llvm/kernel_emitter.h"
#include "compiler/target/llvm/program_emitter.h"
#include "compiler/target/target.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/CrashRecoveryContext.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace kiln::compiler {
namespace {

class GpuCodeGenerator : public CodeGenerator {
 public:
  GpuCodeGenerator(std::unique_ptr<llvm::TargetMachine> machine, bool nvidia, const Options& options)
      : nvidia_(nvidia), machine_(std::move(machine)), module_("kiln", context_) {
    emit_.abi = nvidia ? &NvptxAbi() : &AmdgpuAbi();
    emit_.contraction = options.contraction;
    module_.setDataLayout(machine_->createDataLayout());
    module_.setTargetTriple(machine_->getTargetTriple());
  }

  Abilities abilities() const override { return {.lanes = false, .work_items = true}; }

  absl::Status AddKernel(UOp* linear, const std::string& symbol) override {
    EmitKernel(module_, linear, symbol, emit_);
    optimized_ = false;
    return absl::OkStatus();
  }

  absl::StatusOr<UOp*> SelectValues(Graph& graph, UOp* linear) override { return ZeroShared(graph, linear); }

  absl::StatusOr<UOp*> SelectListed(Graph& graph, UOp* linear, UOp* program) override {
    if (!SourceOf(program).empty())
      return graph.Locate(MakeError(v1::UNSUPPORTED_OP, "a client's own SOURCE is for devices of its language"),
                          program);
    return linear;
  }

  absl::Status AddProgram(UOp* linear, const std::string& symbol) override {
    KILN_ASSIGN_OR_RETURN(llvm::Function * function, EmitProgram(module_, linear, symbol, emit_));
    if (llvm::verifyFunction(*function)) return MakeError(v1::INTERNAL_FAULT, "a program became malformed LLVM IR");
    optimized_ = false;
    return absl::OkStatus();
  }

  std::string Source() override {
    OptimizeOnce();
    std::string text;
    llvm::raw_string_ostream stream(text);
    module_.print(stream, nullptr);
    return text;
  }

  std::string Assembly() override {
    OptimizeOnce();
    return EmitAssembly(*llvm::CloneModule(module_), *machine_);
  }

  // What these back ends have no instruction for ends the process, unless it is caught.
  absl::StatusOr<std::string> Object() override {
    OptimizeOnce();
    std::string object;
    llvm::CrashRecoveryContext::Enable();
    llvm::CrashRecoveryContext recovery;
    const bool made = recovery.RunSafely(
        [&] { object = nvidia_ ? EmitAssembly(module_, *machine_) : EmitObject(module_, *machine_); });
    if (!made)
      return MakeError(v1::UNSUPPORTED_OP,
                       absl::StrCat("LLVM has no code for an operation on ", machine_->getTargetCPU().str()));
    return object;
  }

 private:
  void OptimizeOnce() {
    if (!optimized_) Optimize(module_, *machine_);
    optimized_ = true;
  }

  const bool nvidia_;
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::Module module_;
  EmitOptions emit_;
  bool optimized_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeGpuCodeGenerator(const v1::Target& target, const Options& options) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, MakeTargetMachine(target));
  return std::make_unique<GpuCodeGenerator>(std::move(machine), target.kind() == v1::Target::NVPTX, options);
}

}  // namespace kiln::compiler
