#include "tests/support/engines/amd_engine.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/support/amd/machine.h"
#include "tests/support/executable_run.h"

namespace kiln::testing {
namespace {

// What instructions are selected from.
class IrCollector final : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override {
    if (record.name == "llvm") ir = record.text();
  }
  bool WantsObject() const override { return false; }
  std::string ir;
};

}  // namespace

absl::StatusOr<compiler::InterpResult> AmdEngine::Run(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                                      const compiler::Options& options,
                                                      const compiler::VariableValues& variables) {
  const compiler::GpuArchitecture* architecture = compiler::FindGpuArchitecture(architecture_);
  auto target = compiler::GpuTarget(architecture_);
  KILN_CHECK(architecture != nullptr && target.has_value());
  if (cores_ != 0) target->mutable_tuning()->set_cores(cores_);
  IrCollector collector;
  KILN_ASSIGN_OR_RETURN(const v1::Executable executable, compiler::Compile(graph, *target, options, &collector));
  KILN_ASSIGN_OR_RETURN(const std::unique_ptr<amd::Module> module,
                        amd::Module::Load(collector.ir, architecture->lanes));
  const auto kernels = module->Kernels();
  const auto run = [&](const KernelRun& run) -> absl::Status {
    const std::string& symbol = run.kernel.symbol();
    const auto needs = kernels.find(symbol);
    if (needs == kernels.end()) return absl::InternalError(absl::StrCat("no kernel ", symbol));
    if (run.kernel.launch().static_shared_bytes() < needs->second.shared_bytes)
      return absl::InternalError(absl::StrCat(symbol, " declares more shared memory than its launch says"));
    return module->Launch(symbol, {run.groups, run.items}, run.arguments);
  };
  return RunExecutable(executable, arguments, variables, side_, run);
}

}  // namespace kiln::testing
