// Programs written by hand, compiled for this machine's CPU: the values computed
// beside each of them, and what the interpreter gives.
#include <gtest/gtest.h>

#include "base/graph/graph_text.h"
#include "tests/conformance/programs/program_cases.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

void Check(const std::vector<ProgramCase>& cases) {
  CpuEngine cpu;
  for (const ProgramCase& test : cases) {
    SCOPED_TRACE(test.name);
    auto got = cpu.Run(test.graph, test.arguments, ExactOptions());
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << PrintGraph(test.graph);
    compiler::InterpResult want;
    want.written = test.expected;
    // Storage of several axes is one row of elements to a compiled kernel.
    for (auto& [slot, tensor] : got->written) {
      const auto expected = want.written.find(slot);
      if (expected != want.written.end()) tensor.shape = expected->second.shape;
    }
    EXPECT_EQ(CompareOutcomes(*got, want, test.tolerance), "") << PrintGraph(test.graph);
  }
}

TEST(CompiledPrograms, GiveTheExpectedValues) { Check(ProgramCases()); }

TEST(CompiledPrograms, SoDoGraphsOfOneKernel) { Check(KernelCases()); }

}  // namespace
}  // namespace kiln::testing
