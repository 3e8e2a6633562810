// Programs compiled for NVIDIA's cards and run by the driver for CUDA, on a card that is not there
// (tests/support/fake_cuda), against the interpreter: cases of compiled_vs_interp_test. What is
// looked at is the way through the runtime, so each architecture takes a sixteenth of them; with
// KILN_EVERY=1, each takes all.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/conformance/cases.h"
#include "tests/drivers/gpu_machine.h"
#include "tests/support/device_engine.h"
#include "tests/support/interp_engine.h"

namespace kiln::testing {
namespace {

struct Card {
  const char* arch;
  int major;
};
constexpr Card kCards[] = {{"sm_80", 8}, {"sm_90a", 9}, {"sm_100a", 10}, {"sm_120a", 12}};

class GpuVsInterp : public ::testing::TestWithParam<size_t> {
 protected:
  void CheckCases(const std::vector<Case>& cases) {
    const Card& card = kCards[GetParam()];
    const std::unique_ptr<GpuMachine> machine = MakeCudaMachine();
    machine->fake()(absl::StrCat("set major ", card.major));
    runtime::gpu::Found found = machine->Find();
    ASSERT_EQ(found.devices.size(), 1u);
    DeviceEngine engine(std::move(found.devices[0]));
    ASSERT_EQ(engine.device().target().arch(), card.arch);
    const bool every = std::getenv("KILN_EVERY") != nullptr;
    for (size_t i = every ? 0 : 4 * GetParam(); i < cases.size(); i += every ? 1 : 16) {
      const Case& test = cases[i];
      const auto want = RunInterpreted(test.graph, test.arguments);
      ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
      const auto got = engine.Run(test.graph, test.arguments, ExactOptions());
      ASSERT_TRUE(got.ok()) << test.name << ": " << got.status();
      ASSERT_EQ(got->results.size(), want->results.size()) << test.name;
      for (size_t j = 0; j < want->results.size(); ++j) {
        EXPECT_EQ(CompareTensors(got->results[j], want->results[j], test.outputs[j].tolerance), "")
            << test.outputs[j].name << " in " << test.name;
      }
    }
  }
};

TEST_P(GpuVsInterp, ElementwiseOpsAndCasts) { CheckCases(ScalarCases()); }
TEST_P(GpuVsInterp, ElementwiseOpsOnADozenShapes) { CheckCases(BroadcastCases()); }
TEST_P(GpuVsInterp, MovementAndReduce) { CheckCases(TensorCases()); }

INSTANTIATE_TEST_SUITE_P(Cards, GpuVsInterp, ::testing::Range(size_t{0}, std::size(kCards)),
                         [](const auto& info) { return std::string(kCards[info.param].arch); });

}  // namespace
}  // namespace kiln::testing
