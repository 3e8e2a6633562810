// Products of matrices by the matrix units of GPUs, in tiles of work groups, of other than 16-bit numbers: as
// gpu_tiles_test.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/movement.h"
#include "client/cpp/nn.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "tests/conformance/gpu/products.h"
#include "tests/support/compare.h"
#include "tests/support/engines/amd_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/ptx_engine.h"

namespace kiln::testing {
namespace {

using client::Tensor;

struct Case {
  const char* name;
  Tensor (*product)(Made& made);
  const char* schedule;
  int cores = 1;        // for which it is compiled: the more, the smaller the tiles
  uint64_t beside = 0;  // bytes behind an aligned place where arguments begin
};

constexpr v1::DType kFloat = v1::FLOAT32, kSmall = v1::FLOAT8_E4M3, kByte = v1::INT8, kUnsigned = v1::UINT8;
constexpr v1::DType kWord = v1::INT32, kDouble = v1::FLOAT64;

// With the schedule of mma.sync; of float32 with fast_math.
const Case kCases[] = {
    {"float32", [](Made& m) { return In(kFloat, m.Param(kFloat, {64, 96}), m.Param(kFloat, {96, 128})); },
     "TC(0, 1, MMA_64X64)", 2},
    {"float32, large tiles, B transposed",
     [](Made& m) { return In(kFloat, m.Param(kFloat, {128, 40}), client::Transpose(m.Param(kFloat, {128, 40}))); },
     "TC(0, 1, MMA_128X128)"},
    {"float32, large tiles, A transposed",
     [](Made& m) { return In(kFloat, client::Transpose(m.Param(kFloat, {40, 122})), m.Param(kFloat, {40, 126})); },
     "TC(0, 1, MMA_128X128)"},
    {"float32, odd sizes, what follows, beside an aligned place",
     [](Made& m) {
       Tensor product = In(kFloat, m.Param(kFloat, {71, 37}), m.Param(kFloat, {37, 51}));
       return client::Relu(product + m.Param(kFloat, {51}));
     },
     "TC(0, 1, MMA_32X32)", 4, 4},
    {"int8", [](Made& m) { return In(kWord, m.Param(kByte, {64, 96}), m.Param(kByte, {96, 128})); },
     "TC(0, 1, MMA_64X64)", 2},
    {"uint8, large tiles, B transposed",
     [](Made& m) { return In(kWord, m.Param(kUnsigned, {128, 72}), client::Transpose(m.Param(kUnsigned, {128, 72}))); },
     "TC(0, 1, MMA_128X128)"},
    {"int8, large tiles, A transposed",
     [](Made& m) { return In(kWord, client::Transpose(m.Param(kByte, {72, 112})), m.Param(kByte, {72, 128})); },
     "TC(0, 1, MMA_128X128)"},
    {"int8, odd sizes, batched",
     [](Made& m) {
       const Tensor product = In(kWord, m.Param(kByte, {2, 35, 77}), m.Param(kByte, {2, 77, 62}));
       return product + m.Param(kWord, {62});
     },
     "TC(1, 2, MMA_32X32)", 8},
    {"int8, multiples of 4, beside an aligned place",
     [](Made& m) { return In(kWord, m.Param(kByte, {36, 68}), client::Transpose(m.Param(kByte, {60, 68}))); },
     "TC(0, 1, MMA_32X32)", 8, 4},
    {"float8_e4m3", [](Made& m) { return In(kFloat, m.Param(kSmall, {64, 96}), m.Param(kSmall, {96, 64})); },
     "TC(0, 1, MMA_64X64)", 1},
    {"float8_e5m2, odd sizes, B transposed",
     [](Made& m) {
       Tensor b = m.Param(v1::FLOAT8_E5M2, {51, 45});
       return client::Relu(In(kFloat, m.Param(v1::FLOAT8_E5M2, {37, 45}), client::Transpose(b)));
     },
     "TC(0, 1, MMA_64X64)", 1},
    {"float64", [](Made& m) { return client::Matmul(m.Param(kDouble, {64, 40}), m.Param(kDouble, {40, 128})); },
     "TC(0, 1, MMA_64X64)", 2},
    {"float64, large tiles, both transposed",
     [](Made& m) {
       const Tensor a = client::Transpose(m.Param(kDouble, {24, 128})), b = m.Param(kDouble, {128, 24});
       return client::Matmul(a, client::Transpose(b));
     },
     "TC(0, 1, MMA_128X128)"},
    {"float64, odd sizes, B transposed, what follows, beside an aligned place",
     [](Made& m) {
       Tensor product = client::Matmul(m.Param(kDouble, {35, 21}), client::Transpose(m.Param(kDouble, {45, 21})));
       return client::Relu(product + m.Param(kDouble, {45}));
     },
     "TC(0, 1, MMA_32X32)", 4, 8},
};

TEST(GpuDtypeTiles, GiveTheValuesOfTheInterpreter) {
  compiler::Options fast;
  fast.fast_math = true;
  for (const Case& test : kCases) {
    Made made;
    made.graph.Output(test.product(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
    const compiler::DType in = made.arguments.at(0).dtype;
    const bool floats = compiler::IsFloat(in);
    for (const std::string architecture : {"sm_80", "sm_90a"}) {
      if (floats && compiler::ItemSize(in) == 1 && architecture == "sm_80") continue;  // has none of 8-bit floats
      SCOPED_TRACE(absl::StrCat(test.name, " on ", architecture));
      const auto compiled = compiler::Compile(graph, TargetOf(architecture, test.cores), fast);
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ASSERT_EQ(compiled->kernels_size(), 1);
      EXPECT_EQ(compiled->kernels(0).schedule(), test.schedule);
      EXPECT_TRUE(absl::StrContains(compiled->object(), "mma.sync"));
      PtxEngine engine(architecture);
      engine.DetectGlobalRaces();
      engine.BeginBeside(test.beside);
      const auto got = engine.Run(*compiled, made.arguments);
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << compiled->object();
      EXPECT_EQ(CompareTensors(got->results[0], want->results[0], {}), "");
    }
    // Of float32 nobody makes products of shorter numbers unasked, and sm_80 has none of 8-bit floats.
    const bool takes = !floats || in == compiler::DType::kFloat64;
    const auto exact = compiler::Compile(graph, TargetOf("sm_80", test.cores), {});
    ASSERT_TRUE(exact.ok()) << exact.status();
    EXPECT_EQ(absl::StrContains(exact->object(), "mma.sync"), takes) << test.name;
    EXPECT_EQ(absl::StrContains(exact->kernels(0).schedule(), "MMA_"), takes) << test.name;
  }
}

struct Unit {
  const char* architecture;
  std::vector<v1::DType> takes;
};

// By AMD's matrix units: those that the architecture has.
TEST(GpuDtypeTiles, OfWavesGiveTheValuesOfTheInterpreter) {
  const Unit units[] = {{"gfx90a", {kFloat, kDouble, kByte}},
                        {"gfx942", {kFloat, kDouble, kByte, v1::FLOAT8_E4M3_FNUZ, v1::FLOAT8_E5M2_FNUZ}},
                        {"gfx1100", {kByte, kUnsigned}},
                        {"gfx1200", {kByte, kUnsigned, v1::FLOAT8_E4M3, v1::FLOAT8_E5M2}}};
  std::vector<Case> cases(std::begin(kCases), std::end(kCases));
  cases.push_back({"float8_e4m3_fnuz, A transposed",
                   [](Made& m) {
                     const Tensor a = client::Transpose(m.Param(v1::FLOAT8_E4M3_FNUZ, {72, 64}));
                     return In(kFloat, a, m.Param(v1::FLOAT8_E4M3_FNUZ, {72, 48}));
                   },
                   ""});
  cases.push_back({"float8_e5m2_fnuz, odd sizes",
                   [](Made& m) {
                     return In(kFloat, m.Param(v1::FLOAT8_E5M2_FNUZ, {41, 35}),
                               m.Param(v1::FLOAT8_E5M2_FNUZ, {35, 67}));
                   },
                   ""});
  for (const Case& test : cases) {
    Made made;
    made.graph.Output(test.product(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
    const v1::DType in = compiler::ToWire(made.arguments.at(0).dtype);
    for (const Unit& unit : units) {
      SCOPED_TRACE(absl::StrCat(test.name, " on ", unit.architecture));
      const bool takes = std::count(unit.takes.begin(), unit.takes.end(), in) != 0;
      const auto compiled = compiler::Compile(graph, TargetOf(unit.architecture, test.cores), {});
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ASSERT_EQ(compiled->kernels_size(), 1);
      const std::string schedule = compiled->kernels(0).schedule();
      EXPECT_EQ(absl::StrContains(schedule, "TC("), takes) << schedule;
      if (!takes) continue;
      for (const GuardedBuffer::Side side : {GuardedBuffer::Side::kBegin, GuardedBuffer::Side::kEnd}) {
        AmdEngine engine(unit.architecture, side);
        engine.set_cores(static_cast<uint32_t>(test.cores));
        const auto got = engine.Run(graph, made.arguments, {});
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(CompareTensors(got->results[0], want->results[0], {}), "");
      }
    }
  }
}

}  // namespace
}  // namespace kiln::testing
