#include "tests/support/cpu_programs.h"

#include <gtest/gtest.h>

#include "compiler/compile.h"
#include "tests/support/cpu_targets.h"

namespace kiln::testing {

std::map<std::string, v1::Executable> CompiledForEachCpu(const v1::Graph& graph, const compiler::Options& options) {
  std::map<std::string, v1::Executable> made;
  for (const CpuModel& cpu : CpuModels()) {
    const auto executable = compiler::Compile(graph, TargetOf(cpu), options);
    EXPECT_TRUE(executable.ok()) << cpu.arch << ": " << executable.status();
    made[cpu.arch] = executable.value_or(v1::Executable());
  }
  return made;
}

}  // namespace kiln::testing
