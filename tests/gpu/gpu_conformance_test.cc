// The conformance suites on the GPUs of this machine: what compiled_vs_interp_test and compiled_programs_test ask
// of the CPU. Skipped where there is no card.
#include <gtest/gtest.h>

#include "base/graph_text.h"
#include "runtime/hal/device.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/program_cases.h"
#include "tests/gpu/cards.h"
#include "tests/support/interp_engine.h"

namespace kiln::testing {
namespace {

class GpuConformance : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { cards_ = new Cards(FindCards()); }
  static void TearDownTestSuite() {
    delete cards_;
    cards_ = nullptr;
  }
  void SetUp() override {
    if (cards_->engines.empty()) GTEST_SKIP() << "there is no GPU:\n" << cards_->absent;
  }

  static void CheckGraphs(const std::vector<Case>& cases) {
    for (const auto& engine : cards_->engines) {
      SCOPED_TRACE(engine->device().name());
      for (const Case& test : cases) {
        SCOPED_TRACE(test.name);
        const auto want = RunInterpreted(test.graph, test.arguments);
        ASSERT_TRUE(want.ok()) << want.status();
        const auto got = engine->Run(test.graph, test.arguments, ExactOptions());
        ASSERT_TRUE(got.ok()) << got.status();
        ASSERT_EQ(got->results.size(), want->results.size());
        for (size_t i = 0; i < want->results.size(); ++i)
          EXPECT_EQ(CompareTensors(got->results[i], want->results[i], test.outputs[i].tolerance), "")
              << test.outputs[i].name;
      }
    }
  }

  static void CheckPrograms(const std::vector<ProgramCase>& cases) {
    for (const auto& engine : cards_->engines) {
      SCOPED_TRACE(engine->device().name());
      for (const ProgramCase& test : cases) {
        SCOPED_TRACE(test.name);
        auto got = engine->Run(test.graph, test.arguments, ExactOptions());
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
  }

 private:
  static inline Cards* cards_ = nullptr;
};

TEST_F(GpuConformance, ElementwiseOpsAndCasts) { CheckGraphs(ScalarCases()); }
TEST_F(GpuConformance, ElementwiseOpsOnADozenShapes) { CheckGraphs(BroadcastCases()); }
TEST_F(GpuConformance, MovementAndReduce) { CheckGraphs(TensorCases()); }
TEST_F(GpuConformance, Programs) { CheckPrograms(ProgramCases()); }
TEST_F(GpuConformance, GraphsOfOneKernel) { CheckPrograms(KernelCases()); }

}  // namespace
}  // namespace kiln::testing
