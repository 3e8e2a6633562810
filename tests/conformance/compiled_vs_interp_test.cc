// Programs compiled for this machine's CPU against the interpreter: the same
// cases that interp_vs_numpy_test compares with the reference data, and every
// elementwise op over shapes that broadcast.
#include <gtest/gtest.h>

#include "base/graph/graph_text.h"
#include "tests/conformance/cases.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

class CompiledVsInterp : public ::testing::Test {
 protected:
  void CheckCase(const Case& test) {
    const auto want = RunInterpreted(test.graph, test.arguments);
    ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
    const auto got = cpu_.Run(test.graph, test.arguments, ExactOptions());
    ASSERT_TRUE(got.ok()) << test.name << ": " << got.status();
    ASSERT_EQ(got->results.size(), want->results.size()) << test.name;
    for (size_t i = 0; i < want->results.size(); ++i) {
      EXPECT_EQ(CompareTensors(got->results[i], want->results[i], test.outputs[i].tolerance), "")
          << test.outputs[i].name << " in " << test.name;
    }
  }

  CpuEngine cpu_;
};

TEST_F(CompiledVsInterp, ElementwiseOpsAndCasts) {
  for (const Case& test : ScalarCases()) CheckCase(test);
}

TEST_F(CompiledVsInterp, ElementwiseOpsOnADozenShapes) {
  for (const Case& test : BroadcastCases()) CheckCase(test);
}

TEST_F(CompiledVsInterp, MovementAndReduce) {
  for (const Case& test : TensorCases()) CheckCase(test);
}

}  // namespace
}  // namespace kiln::testing
