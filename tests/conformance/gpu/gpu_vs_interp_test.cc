// Programs compiled for either vendor's cards and run by its driver, on a card that is not there
// (tests/support/fake_cuda, fake_hip), against the interpreter: cases of compiled_vs_interp_test.
// What is looked at is the way through the runtime, so each of NVIDIA's architectures takes a
// sixteenth of them, and each of AMD's, whose back end takes longer, a thirty-second; with
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
#include "tests/drivers/compiled_for.h"
#include "tests/drivers/gpu_machine.h"
#include "tests/support/engines/device_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

struct Card {
  const char* arch;
  int major;  // of NVIDIA's compute capability; 0: AMD's
};
constexpr Card kCards[] = {{"sm_80", 8},  {"sm_90a", 9}, {"sm_100a", 10}, {"sm_120a", 12},
                           {"gfx90a", 0}, {"gfx942", 0}, {"gfx1100", 0},  {"gfx1200", 0}};

std::unique_ptr<GpuMachine> MachineWith(const Card& card) {
  if (card.major == 0) return MakeHipMachineOf(card.arch);
  auto machine = MakeCudaMachine();
  machine->fake()(absl::StrCat("set major ", card.major));
  return machine;
}

class GpuVsInterp : public ::testing::TestWithParam<size_t> {
 protected:
  void CheckCases(const std::vector<Case>& cases) {
    const Card& card = kCards[GetParam()];
    const std::unique_ptr<GpuMachine> machine = MachineWith(card);
    runtime::gpu::Found found = machine->Find();
    ASSERT_EQ(found.devices.size(), 1u);
    DeviceEngine engine(std::move(found.devices[0]));
    ASSERT_EQ(engine.device().target().arch(), card.arch);
    const bool every = std::getenv("KILN_EVERY") != nullptr;
    // The four of a vendor take different ones.
    const size_t share = every ? 1 : card.major == 0 ? 32 : 16;
    for (size_t i = share / 4 * GetParam() % share; i < cases.size(); i += share) {
      const Case& test = cases[i];
      const auto want = RunInterpreted(test.graph, test.arguments);
      ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
      const auto made = CompiledFor(*machine, engine.device().target(), test.graph, ExactOptions());
      ASSERT_TRUE(made.ok()) << test.name << ": " << made.status();
      const auto program = engine.Load(*made);
      ASSERT_TRUE(program.ok()) << test.name << ": " << program.status();
      const auto got = engine.RunLoaded(*program, test.arguments);
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
