// Products of float32 numbers in tiles of work groups, on NVIDIA's cards: values against the interpreter, by the
// machine of tests/support/ptx. gpu_tiles_test has those by matrix units.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/movement.h"
#include "client/cpp/nn.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "tests/conformance/gpu/products.h"
#include "tests/support/compare.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/ptx_engine.h"
#include "tests/support/ptxas.h"

namespace kiln::testing {
namespace {

using client::Matmul;
using client::Shape;
using client::Tensor;
using client::Transpose;

constexpr v1::DType kFloat = v1::FLOAT32;

struct Case {
  const char* name;
  Tensor (*product)(Made& made);
  const char* schedule;
  int cores = 1;        // for which it is compiled: the more, the smaller the tiles
  uint64_t beside = 0;  // bytes behind an aligned place where arguments begin
};

const Case kCases[] = {
    {"whole tiles", [](Made& m) { return Matmul(m.Param(kFloat, {64, 40}), m.Param(kFloat, {40, 128})); },
     "TC(0, 1, FMA_64X64)", 2},
    {"whole large tiles", [](Made& m) { return Matmul(m.Param(kFloat, {256, 32}), m.Param(kFloat, {32, 128})); },
     "TC(0, 1, FMA_128X128)"},
    {"odd sizes", [](Made& m) { return Matmul(m.Param(kFloat, {70, 37}), m.Param(kFloat, {37, 51})); },
     "TC(0, 1, FMA_64X64)", 2},
    {"B transposed", [](Made& m) { return Matmul(m.Param(kFloat, {64, 36}), Transpose(m.Param(kFloat, {76, 36}))); },
     "TC(0, 1, FMA_64X64)", 2},
    {"A transposed", [](Made& m) { return Matmul(Transpose(m.Param(kFloat, {40, 130})), m.Param(kFloat, {40, 122})); },
     "TC(0, 1, FMA_128X128)"},
    {"both transposed",
     [](Made& m) { return Matmul(Transpose(m.Param(kFloat, {40, 72})), Transpose(m.Param(kFloat, {66, 40}))); },
     "TC(0, 1, FMA_64X64)", 2},
    {"batched, with what follows",
     [](Made& m) {
       Tensor product = Matmul(m.Param(kFloat, {2, 40, 24}), m.Param(kFloat, {2, 24, 56}));
       return client::Relu(product + m.Param(kFloat, {56})) + m.Param(kFloat, {2, 40, 56});
     },
     "TC(1, 2, FMA_64X64)", 2},
    {"beginning in the middle",
     [](Made& m) {
       Tensor a = client::Slice(client::Slice(m.Param(kFloat, {65, 72}), 1, 3, 67), 0, 1, 65);
       return Matmul(a, m.Param(kFloat, {64, 64}));
     },
     "TC(0, 1, FMA_64X64)"},
    {"beside an aligned place", [](Made& m) { return Matmul(m.Param(kFloat, {64, 64}), m.Param(kFloat, {64, 64})); },
     "TC(0, 1, FMA_64X64)", 1, 4},
};

TEST(FmaTiles, GiveTheValuesOfTheInterpreter) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    Made made;
    made.graph.Output(test.product(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << want.status();
    const auto compiled = compiler::Compile(graph, TargetOf("sm_90a", test.cores), {});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    ASSERT_EQ(compiled->kernels_size(), 1);
    EXPECT_EQ(compiled->kernels(0).schedule(), test.schedule);
    EXPECT_FALSE(absl::StrContains(compiled->object(), "mma.sync"));
    PtxEngine engine("sm_90a");
    engine.DetectGlobalRaces();
    engine.BeginBeside(test.beside);
    const auto got = engine.Run(*compiled, made.arguments);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << compiled->object();
    EXPECT_EQ(CompareTensors(got->results[0], want->results[0], {}), "");
  }
}

// Times the identity, nothing of a number is lost: numbers of all 24 bits of a significand.
TEST(FmaTiles, AreOfWholeNumbers) {
  constexpr int64_t kSize = 64;
  Made made;
  made.graph.Output(Matmul(made.Param(kFloat, {kSize, kSize}), made.Param(kFloat, {kSize, kSize})));
  for (int64_t i = 0; i < kSize * kSize; ++i) {
    const float any = static_cast<float>(i % 7 - 3) + std::nextafter(1.0f, static_cast<float>(i % 3)) / 4096;
    const float one = i / kSize == i % kSize ? 1 : 0;
    std::memcpy(&made.arguments[0].bytes[static_cast<size_t>(i) * sizeof any], &any, sizeof any);
    std::memcpy(&made.arguments[1].bytes[static_cast<size_t>(i) * sizeof one], &one, sizeof one);
  }
  const auto compiled = compiler::Compile(made.graph.Build().value(), TargetOf("sm_80", 1), {});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(compiled->kernels(0).schedule(), "TC(0, 1, FMA_64X64)");
  const auto got = PtxEngine("sm_80").Run(*compiled, made.arguments);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->results[0].bytes, made.arguments[0].bytes);
}

// Where there are far more cores than tiles, more items take part without them.
TEST(FmaTiles, AreForEnoughOfThem) {
  Made made;
  made.graph.Output(Matmul(made.Param(kFloat, {128, 64}), made.Param(kFloat, {64, 128})));
  const v1::Graph graph = made.graph.Build().value();
  for (const int cores : {8, 9}) {
    const auto compiled = compiler::Compile(graph, TargetOf("sm_90a", cores), {});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(absl::StrContains(compiled->kernels(0).schedule(), "FMA_64X64"), cores == 8) << cores;
  }
}

TEST(FmaTiles, AreKeptInRegisters) {
  const char* ptxas = std::getenv("KILN_PTXAS");
  if (ptxas == nullptr) GTEST_SKIP() << "there is no ptxas: ./dev setup --cuda installs one, KILN_PTXAS names one";
  for (const bool transposed : {false, true}) {
    Made made;
    Tensor b = made.Param(kFloat, {256, 256});
    Tensor product = Matmul(made.Param(kFloat, {256, 256}), transposed ? Transpose(b) : b);
    made.graph.Output(client::Relu(product + made.Param(kFloat, {256})));
    const v1::Graph graph = made.graph.Build().value();
    for (const char* architecture : {"sm_80", "sm_90a"}) {
      for (const int cores : {4, 16}) {
        SCOPED_TRACE(absl::StrCat(architecture, " of ", cores, " cores", transposed ? ", B transposed" : ""));
        const auto compiled = compiler::Compile(graph, TargetOf(architecture, cores), {});
        ASSERT_TRUE(compiled.ok()) << compiled.status();
        EXPECT_EQ(compiled->kernels(0).schedule(), cores == 4 ? "TC(0, 1, FMA_128X128)" : "TC(0, 1, FMA_64X64)");
        const Assembled assembled = Assemble(ptxas, architecture, compiled->object());
        EXPECT_TRUE(assembled.taken) << assembled.said;
        EXPECT_TRUE(absl::StrContains(assembled.said, " 0 bytes spill stores, 0 bytes spill loads")) << assembled.said;
        RecordProperty(absl::StrCat(architecture, "_", cores, transposed), assembled.said);
      }
    }
  }
}

}  // namespace
}  // namespace kiln::testing
