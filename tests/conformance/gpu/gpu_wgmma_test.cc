// Products of matrices on Hopper: values against the interpreter, by the machine of tests/support/ptx, and what
// NVIDIA's assembler makes of the code. Numbers are small and whole, so that every order of a sum gives the same.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/movement.h"
#include "client/cpp/nn.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/conformance/gpu/products.h"
#include "tests/support/compare.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/ptx_engine.h"
#include "tests/support/ptxas.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

Tensor T(const Tensor& a) { return client::Transpose(a); }

constexpr v1::DType kHalf = v1::FLOAT16, kBfloat = v1::BFLOAT16;

struct Case {
  const char* name;
  Tensor (*product)(Made& made);
  const char* schedule;
  int cores = 1;  // for which it is compiled: the more, the smaller the tiles
  bool by_engine = true;
  bool in_registers = true;  // with gates for each element of a wide tile, or much to read besides, not quite all is
};

const Case kCases[] = {
    {"whole tiles", [](Made& m) { return Wide(m.Param(kBfloat, {128, 64}), m.Param(kBfloat, {64, 256})); },
     "TC(0, 1, WGMMA_128X256)"},
    {"odd rows, along the depth",
     [](Made& m) { return Wide(m.Param(kBfloat, {125, 72}), T(m.Param(kBfloat, {251, 72}))); },
     "TC(0, 1, WGMMA_128X128)", 2},
    {"odd rows of a wide tile", [](Made& m) { return Wide(m.Param(kHalf, {127, 328}), T(m.Param(kHalf, {255, 328}))); },
     "TC(0, 1, WGMMA_128X256)", 1, true, false},
    {"an odd depth", [](Made& m) { return Wide(T(m.Param(kHalf, {37, 128})), m.Param(kHalf, {37, 256})); },
     "TC(0, 1, WGMMA_128X256)"},
    {"batched", [](Made& m) { return Wide(m.Param(kHalf, {2, 120, 24}), m.Param(kHalf, {2, 24, 128})); },
     "TC(1, 2, WGMMA_128X128)", 2},
    {"halves, with what follows",
     [](Made& m) {
       Tensor product = client::Matmul(m.Param(kHalf, {120, 64}), m.Param(kHalf, {64, 248}));
       return client::Relu(product + m.Param(kHalf, {248})) + m.Param(kHalf, {120, 248});
     },
     "TC(0, 1, WGMMA_128X128)", 1, true, false},
    {"beginning in the middle",
     [](Made& m) {
       Tensor a = client::Slice(m.Param(kHalf, {131, 72}), 0, 3, 131);
       return Wide(a, m.Param(kHalf, {72, 128}));
     },
     "TC(0, 1, WGMMA_128X128)"},
    // What the engine cannot take: odd rows of odd rows, and odd beginnings.
    {"rows that are no multiples of 16 bytes",
     [](Made& m) { return Wide(m.Param(kBfloat, {128, 66}), m.Param(kBfloat, {66, 128})); }, "TC(0, 1, MMA_128X128)", 1,
     false},
    {"beginning beside",
     [](Made& m) {
       Tensor a = client::Slice(m.Param(kHalf, {128, 80}), 1, 4, 76);
       return Wide(a, m.Param(kHalf, {72, 128}));
     },
     "TC(0, 1, MMA_128X128)", 1, false},
};

v1::Executable Compiled(const v1::Graph& graph, int cores) {
  v1::Target target = *compiler::GpuTarget("sm_90a");
  target.mutable_tuning()->set_cores(static_cast<uint32_t>(cores));
  auto compiled = compiler::Compile(graph, target, {});
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return compiled.ok() ? *std::move(compiled) : v1::Executable();
}

TEST(GpuWgmma, GivesTheValuesOfTheInterpreter) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    Made made;
    made.graph.Output(test.product(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << want.status();
    const v1::Executable compiled = Compiled(graph, test.cores);
    ASSERT_EQ(compiled.kernels_size(), 1);
    EXPECT_EQ(compiled.kernels(0).schedule(), test.schedule);
    EXPECT_EQ(compiled.kernels(0).launch().tensor_maps_size(), test.by_engine ? 2 : 0);
    EXPECT_EQ(absl::StrContains(compiled.object(), "cp.async.bulk.tensor"), test.by_engine);
    // Where a view begins beside a multiple of 16 bytes, items do the engine's work.
    for (const uint64_t beside : {0, 4}) {
      PtxEngine engine("sm_90a");
      engine.DetectGlobalRaces();
      engine.BeginBeside(beside);
      const auto got = engine.Run(compiled, made.arguments);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(CompareTensors(got->results[0], want->results[0], {}), "") << beside;
    }
  }
}

TEST(GpuWgmma, PtxasKeepsSumsInRegistersAndProductsAsynchronous) {
  const char* ptxas = std::getenv("KILN_PTXAS");
  if (ptxas == nullptr) GTEST_SKIP() << "there is no ptxas: ./dev setup --cuda installs one, KILN_PTXAS names one";
  for (const Case& test : kCases) {
    if (!test.by_engine) continue;
    SCOPED_TRACE(test.name);
    Made made;
    made.graph.Output(test.product(made));
    const v1::Executable compiled = Compiled(made.graph.Build().value(), test.cores);
    const Assembled assembled = Assemble(ptxas, "sm_90a", compiled.object());
    EXPECT_TRUE(assembled.taken) << assembled.said;
    const std::string& said = assembled.said;
    if (test.in_registers) {
      EXPECT_TRUE(absl::StrContains(said, "0 bytes spill stores, 0 bytes spill loads")) << said;
    }
    // C75..: products that are made one after the other, or setmaxnreg that is not heeded.
    EXPECT_FALSE(absl::StrContains(said, "C75")) << said;
    EXPECT_FALSE(absl::StrContains(said, "warning")) << said;
  }
}

}  // namespace
}  // namespace kiln::testing
