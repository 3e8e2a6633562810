// The CPU target: LLVM, for the machine the runtime found.
#include "absl/algorithm/container.h"
#include "base/error.h"
#include "compiler/structure/code_text.h"
#include "compiler/structure/core_product.h"
#include "compiler/target/llvm/codegen.h"
#include "compiler/target/llvm/custom_code.h"
#include "compiler/target/llvm/kernel_emitter.h"
#include "compiler/target/llvm/program_emitter.h"
#include "compiler/target/llvm/streamed_stores.h"
#include "compiler/target/llvm/values/vector_math.h"
#include "compiler/target/target.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Transforms/Utils/Cloning.h"

namespace kiln::compiler {
namespace {

class CpuCodeGenerator : public CodeGenerator {
 public:
  CpuCodeGenerator(std::unique_ptr<llvm::TargetMachine> machine, const v1::Target& target, const Options& options)
      : target_(target),
        machine_(std::move(machine)),
        module_("kiln", context_),
        math_(VectorMathOps(target)),
        vector_bits_(std::to_string(8 * std::max(16u, target.tuning().vector_bytes()))) {
    emit_.contraction = options.contraction;
    emit_.guard_arrays = options.guard_arrays;
    emit_.threads = std::max<int64_t>(1, target.tuning().cores());
    emit_.rounds = machine_->getTargetTriple().isX86() && absl::c_linear_search(target.features(), "+sse4.1");
    emit_.matrix_unit_by_loops = absl::c_linear_search(target.features(), kMatrixUnitByLoops);
    CollectFaults(context_, &faults_);  // a client's own inline assembly is read when machine code is made of it
    module_.setDataLayout(machine_->createDataLayout());
    module_.setTargetTriple(machine_->getTargetTriple());
  }

  NativeOps native_ops() const override { return math_; }

  absl::Status AddKernel(UOp* linear, const std::string& symbol) override {
    EmitOptions streaming = emit_;
    streaming.streamed = StreamedParameters(linear, target_);
    if (streaming.streamed.empty()) {
      EmitKernel(module_, linear, symbol, emit_);
      return Added();
    }
    llvm::Function* past = EmitKernel(module_, linear, symbol + ".past", streaming);
    llvm::Function* plain = EmitKernel(module_, linear, symbol + ".plain", emit_);
    EmitChoice(module_, symbol, streaming.streamed, past, plain);
    return Added();
  }

  absl::StatusOr<UOp*> SelectListed(Graph& graph, UOp* linear, UOp* program) override {
    KILN_RETURN_IF_ERROR(CheckCustomCode(graph, program));
    return linear;
  }

  absl::Status AddProgram(UOp* linear, const std::string& symbol) override {
    const std::string& source = SourceOf(linear);
    KILN_ASSIGN_OR_RETURN(llvm::Function * function, source.empty() ? EmitProgram(module_, linear, symbol, emit_)
                                                                    : AddSource(module_, source, symbol));
    // What a client writes by hand has more forms than any pass makes: better refused than miscompiled.
    if (llvm::verifyFunction(*function)) return MakeError(v1::INTERNAL_FAULT, "a program became malformed LLVM IR");
    return Added();
  }

  std::string Source(absl::string_view) override {
    OptimizeOnce();
    return ModuleText(module_);
  }

  std::string Assembly() override {
    OptimizeOnce();
    return EmitAssembly(*llvm::CloneModule(module_), *machine_);
  }

  absl::StatusOr<std::string> Object() override {
    OptimizeOnce();
    std::string object = EmitObject(module_, *machine_);
    if (!faults_.empty()) return MakeError(v1::BAD_ARGUMENT, "a program's own code: " + faults_);
    return object;
  }

 private:
  absl::Status Added() {
    optimized_ = false;
    return absl::OkStatus();
  }

  void OptimizeOnce() {
    if (optimized_) return;
    // Full-width registers even where the model prefers halves, or halves where the target says so. In
    // every function: how a vector is passed depends on it, so caller and callee have to agree.
    for (llvm::Function& function : module_) {
      if (function.isDeclaration()) continue;
      function.addFnAttr("prefer-vector-width", vector_bits_);
      function.addFnAttr("min-legal-vector-width", vector_bits_);
    }
    Optimize(module_, *machine_);
    optimized_ = true;
  }

  const v1::Target target_;
  std::string faults_;  // LLVM's own words
  llvm::LLVMContext context_;
  std::unique_ptr<llvm::TargetMachine> machine_;
  llvm::Module module_;
  const std::vector<NativeOp> math_;
  const std::string vector_bits_;
  EmitOptions emit_;
  bool optimized_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CodeGenerator>> MakeCpuCodeGenerator(const v1::Target& target, const Options& options) {
  KILN_ASSIGN_OR_RETURN(std::unique_ptr<llvm::TargetMachine> machine, MakeTargetMachine(target));
  return std::make_unique<CpuCodeGenerator>(std::move(machine), target, options);
}

}  // namespace kiln::compiler
