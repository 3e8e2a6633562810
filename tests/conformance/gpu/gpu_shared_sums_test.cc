// Products whose terms several items share, as they do where results are few (opt/gpu/gpu_tile.h): the values are the
// interpreter's, on NVIDIA's and AMD's cards, of few cores and of many.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "tests/conformance/gpu/products.h"
#include "tests/support/compare.h"
#include "tests/support/engines/amd_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/ptx_engine.h"
#include "tests/support/guarded_buffer.h"

namespace kiln::testing {
namespace {

using client::Tensor;

constexpr int kFew = 16, kMany = 132;  // cores: of many, an item has one sum
constexpr v1::DType kFloat = v1::FLOAT32;

struct Case {
  const char* name;
  Tensor (*product)(Made& made);
};

const Case kCases[] = {
    {"four columns an item", [](Made& m) { return Wide(m.Param(kFloat, {72, 128}), m.Param(kFloat, {128, 64})); }},
    {"odd sizes, and what follows",
     [](Made& m) {
       const Tensor product = Wide(m.Param(kFloat, {75, 136}), m.Param(kFloat, {136, 61}));
       return client::Relu(product + m.Param(kFloat, {61}));
     }},
    {"batched", [](Made& m) { return Wide(m.Param(kFloat, {3, 40, 128}), m.Param(kFloat, {3, 128, 36})); }},
};

void ExpectShared(const v1::Executable& compiled, int cores) {
  const std::string& schedule = compiled.kernels(0).schedule();
  EXPECT_TRUE(absl::StrContains(schedule, "GROUP_REDUCE")) << schedule;
  EXPECT_EQ(absl::StrContains(schedule, "UPCAST"), cores == kFew) << schedule;
}

class GpuSharedSums : public ::testing::TestWithParam<int> {};

TEST_P(GpuSharedSums, GiveTheValuesOfTheInterpreter) {
  const int cores = GetParam();
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    Made made;
    made.graph.Output(test.product(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << want.status();

    const auto ptx = compiler::Compile(graph, TargetOf("sm_90a", cores), {});
    ASSERT_TRUE(ptx.ok()) << ptx.status();
    ExpectShared(*ptx, cores);
    PtxEngine nvidia("sm_90a");
    nvidia.DetectGlobalRaces();
    const auto by_nvidia = nvidia.Run(*ptx, made.arguments);
    ASSERT_TRUE(by_nvidia.ok()) << by_nvidia.status();
    EXPECT_EQ(CompareTensors(by_nvidia->results[0], want->results[0], {}), "");

    const auto object = compiler::Compile(graph, TargetOf("gfx1100", cores), {});
    ASSERT_TRUE(object.ok()) << object.status();
    ExpectShared(*object, cores);
    AmdEngine amd("gfx1100", GuardedBuffer::Side::kEnd);
    amd.set_cores(static_cast<uint32_t>(cores));
    const auto by_amd = amd.Run(graph, made.arguments, {});
    ASSERT_TRUE(by_amd.ok()) << by_amd.status();
    EXPECT_EQ(CompareTensors(by_amd->results[0], want->results[0], {}), "");
  }
}

INSTANTIATE_TEST_SUITE_P(Cores, GpuSharedSums, ::testing::Values(kFew, kMany));

}  // namespace
}  // namespace kiln::testing
