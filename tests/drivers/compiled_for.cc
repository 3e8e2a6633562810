#include "tests/drivers/compiled_for.h"

#include "absl/strings/str_cat.h"
#include "compiler/tools/dump_observer.h"

namespace kiln::testing {
namespace {

class CodeObserver final : public compiler::DumpObserver {
 public:
  using DumpObserver::DumpObserver;
  void OnPass(const compiler::PassRecord& record) override {
    if (record.name == "llvm") DumpObserver::OnPass(record);
  }
  bool WantsAssembly() const override { return false; }
};

}  // namespace

absl::StatusOr<v1::Executable> CompiledFor(const GpuMachine& machine, const v1::Target& target, const v1::Graph& graph,
                                           const compiler::Options& options, const std::string& name) {
  const std::string folder = machine.code_folder();
  if (folder.empty()) return compiler::Compile(graph, target, options);
  CodeObserver observer(absl::StrCat(folder, "/", name));
  auto executable = compiler::Compile(graph, target, options, &observer);
  if (executable.ok()) observer.WriteObject(executable->object());
  return executable;
}

}  // namespace kiln::testing
