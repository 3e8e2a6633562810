#include "compiler/target/llvm/codegen.h"

#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/target/llvm/large_code.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/CodeGen/SchedulerRegistry.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"

namespace kiln::compiler {
namespace {

// The tile of a product holds nearly all registers: in an order made for latency it would not fit in them,
// and the processor finds an order of its own anyway. That is an option of LLVM's command line, and of its process: lld
// sets all of these back, in the middle of other threads' compilations. So ours is what they are set back to.
void ChooseScheduler() {
  using llvm::RegisterScheduler;
  using Option = llvm::cl::opt<RegisterScheduler::FunctionPassCtor, false, llvm::RegisterPassParser<RegisterScheduler>>;
  const auto& options = llvm::cl::getRegisteredOptions();
  const auto found = options.find("pre-RA-sched");
  KILN_CHECK(found != options.end());
  static_cast<Option*>(found->second)->setInitialValue(&llvm::createBURRListDAGScheduler);
}

void InitializeTargetsOnce() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    LLVMInitializeAMDGPUTargetInfo();
    LLVMInitializeAMDGPUTarget();
    LLVMInitializeAMDGPUTargetMC();
    LLVMInitializeAMDGPUAsmPrinter();
    ChooseScheduler();
  });
}

std::string Emit(llvm::Module& module, llvm::TargetMachine& machine, llvm::CodeGenFileType type) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream stream(bytes);
  llvm::legacy::PassManager passes;
  CutIndexTrees(module);
  const llvm::Triple& triple = machine.getTargetTriple();
  if (!triple.isNVPTX() && !triple.isAMDGCN()) SplitLongBlocks(module);
  const bool failed = machine.addPassesToEmitFile(passes, stream, nullptr, type);
  KILN_CHECK(!failed);
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

}  // namespace

void CollectFaults(llvm::LLVMContext& context, std::string* faults) {
  context.setDiagnosticHandlerCallBack(
      [](const llvm::DiagnosticInfo* info, void* collected) {
        if (info->getSeverity() != llvm::DS_Error) return;
        llvm::raw_string_ostream stream(*static_cast<std::string*>(collected));
        llvm::DiagnosticPrinterRawOStream printer(stream);
        info->print(printer);
      },
      faults);
}

absl::StatusOr<std::unique_ptr<llvm::TargetMachine>> MakeTargetMachine(const v1::Target& target) {
  InitializeTargetsOnce();
  std::string error;
  const llvm::Triple triple(target.triple());
  const llvm::Target* backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (backend == nullptr)
    return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("no code generator for ", target.triple(), ": ", error));
  llvm::TargetOptions options;
  options.NoTrappingFPMath = true;
  std::vector<std::string> features(target.features().begin(), target.features().end());
  std::erase_if(features, [](const std::string& word) { return absl::StartsWith(word, "+kiln-"); });  // our own
  std::unique_ptr<llvm::TargetMachine> machine(
      backend->createTargetMachine(triple, target.arch(), absl::StrJoin(features, ","), options,
                                   llvm::Reloc::PIC_, llvm::CodeModel::Small, llvm::CodeGenOptLevel::Default));
  if (machine == nullptr) return MakeError(v1::UNSUPPORTED_OP, absl::StrCat("no code generator for ", target.triple()));
  return machine;
}

void Optimize(llvm::Module& module, llvm::TargetMachine& machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager calls;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(calls);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, calls, modules);
  llvm::ModulePassManager passes;
  // A client's own code goes into its places, accumulators into registers. Nothing else
  // is needed: invariants have left their loops, and expressions are shared, before they
  // get here.
  // But for GPUs, whose loops say how many iterations they do at once: what these load from neighbouring places is one
  // vector, if it is known to be aligned.
  const llvm::Triple& triple = machine.getTargetTriple();
  const bool gpu = triple.isNVPTX() || triple.isAMDGCN();
  const char* pipeline =
      gpu ? "always-inline,function(sroa,loop-unroll,early-cse,infer-alignment)" : "always-inline,function(sroa)";
  const bool failed = static_cast<bool>(builder.parsePassPipeline(passes, pipeline));
  KILN_CHECK(!failed);
  passes.run(module, modules);
}

std::string ModuleText(const llvm::Module& module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream, nullptr);
  return text;
}

std::string EmitObject(llvm::Module& module, llvm::TargetMachine& machine) {
  return Emit(module, machine, llvm::CodeGenFileType::ObjectFile);
}
std::string EmitAssembly(llvm::Module& module, llvm::TargetMachine& machine) {
  return Emit(module, machine, llvm::CodeGenFileType::AssemblyFile);
}

}  // namespace kiln::compiler
