// Products of matrices of 16-bit numbers by the matrix units of GPUs, in tiles of work groups: values against the
// interpreter, by the machines of tests/support/ptx, which also finds races and barriers that are missing, and of
// tests/support/amd. Numbers are small and whole, so that every order of a sum gives the same.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/graph/graph_text.h"
#include "client/cpp/graph.h"
#include "client/cpp/movement.h"
#include "client/cpp/nn.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "compiler/target/gpu/architectures.h"
#include "tests/conformance/gpu/products.h"
#include "tests/support/compare.h"
#include "tests/support/engines/amd_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/ptx_engine.h"
#include "tests/support/ptxas.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

struct Case {
  const char* name;
  Tensor (*product)(Made& made);
  const char* schedule;
  int cores = 1;        // for which it is compiled: the more, the smaller the tiles
  uint64_t beside = 0;  // bytes behind an aligned place where arguments begin
};

constexpr v1::DType kHalf = v1::FLOAT16, kBfloat = v1::BFLOAT16, kFloat = v1::FLOAT32, kDouble = v1::FLOAT64;
constexpr v1::DType kByte = v1::INT8;

const Case kCases[] = {
    {"whole tiles", [](Made& m) { return Wide(m.Param(kHalf, {64, 96}), m.Param(kHalf, {96, 128})); },
     "TC(0, 1, MMA_64X64)", 2},
    {"whole large tiles", [](Made& m) { return Wide(m.Param(kBfloat, {128, 64}), m.Param(kBfloat, {64, 128})); },
     "TC(0, 1, MMA_128X128)"},
    {"small tiles", [](Made& m) { return Wide(m.Param(kHalf, {64, 40}), m.Param(kHalf, {40, 64})); },
     "TC(0, 1, MMA_32X32)", 4},
    {"odd sizes", [](Made& m) { return Wide(m.Param(kBfloat, {70, 37}), m.Param(kBfloat, {37, 51})); },
     "TC(0, 1, MMA_64X64)", 2},
    {"sizes that are multiples of 4", [](Made& m) { return Wide(m.Param(kHalf, {76, 36}), m.Param(kHalf, {36, 52})); },
     "TC(0, 1, MMA_64X64)", 2},
    {"B transposed",
     [](Made& m) { return Wide(m.Param(kHalf, {64, 72}), client::Transpose(m.Param(kHalf, {80, 72}))); },
     "TC(0, 1, MMA_64X64)", 2},
    {"A transposed",
     [](Made& m) { return Wide(client::Transpose(m.Param(kHalf, {40, 72})), m.Param(kHalf, {40, 64})); },
     "TC(0, 1, MMA_64X64)", 2},
    {"both transposed",
     [](Made& m) {
       return Wide(client::Transpose(m.Param(kBfloat, {40, 122})), client::Transpose(m.Param(kBfloat, {126, 40})));
     },
     "TC(0, 1, MMA_128X128)"},
    {"batched", [](Made& m) { return Wide(m.Param(kHalf, {3, 40, 24}), m.Param(kHalf, {3, 24, 56})); },
     "TC(1, 2, MMA_64X64)", 3},
    {"halves, with what follows",
     [](Made& m) {
       Tensor product = client::Matmul(m.Param(kHalf, {72, 64}), m.Param(kHalf, {64, 88}));
       return client::Relu(product + m.Param(kHalf, {88})) + m.Param(kHalf, {72, 88});
     },
     "TC(0, 1, MMA_32X32)", 2},
    {"beginning in the middle",
     [](Made& m) {
       Tensor a = client::Slice(client::Slice(m.Param(kHalf, {65, 72}), 1, 3, 67), 0, 1, 65);
       return Wide(a, m.Param(kHalf, {64, 64}));
     },
     "TC(0, 1, MMA_64X64)", 1},
    {"beside an aligned place", [](Made& m) { return Wide(m.Param(kHalf, {64, 64}), m.Param(kHalf, {64, 64})); },
     "TC(0, 1, MMA_32X32)", 4, 4},
};

TEST(GpuTiles, GiveTheValuesOfTheInterpreter) {
  for (const Case& test : kCases) {
    Made made;
    made.graph.Output(test.product(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
    for (const std::string architecture : {"sm_80", "sm_90a"}) {
      SCOPED_TRACE(absl::StrCat(test.name, " on ", architecture));
      const auto compiled = compiler::Compile(graph, TargetOf(architecture, test.cores), {});
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ASSERT_EQ(compiled->kernels_size(), 1);
      // What Hopper does otherwise, gpu_wgmma_test has.
      if (absl::StrContains(compiled->kernels(0).schedule(), "WGMMA")) continue;
      EXPECT_EQ(compiled->kernels(0).schedule(), test.schedule);
      EXPECT_TRUE(absl::StrContains(compiled->object(), "mma.sync"));
      PtxEngine engine(architecture);
      engine.DetectGlobalRaces();
      engine.BeginBeside(test.beside);
      const auto got = engine.Run(*compiled, made.arguments);
      ASSERT_TRUE(got.ok()) << got.status() << "\n" << compiled->object();
      EXPECT_EQ(CompareTensors(got->results[0], want->results[0], {}), "");
    }
  }
}

// A client's own kernel whose A begins 32 numbers too late: what is beyond its end is gated, hence no tile's.
TEST(GpuTiles, AreOfNoPlacesThatMayBeOutside) {
  const auto text = [](int late) {
    return absl::StrCat(R"(0 CONST [] weakint 64
1 CONST [] weakint 4096
2 STACK [1]
3 PARAM [2] slot=0 dtype=float32
4 PARAM [2] slot=1 dtype=float16
5 PARAM [2] slot=2 dtype=float16
6 RANGE [0] range=(0) type=LOOP
7 RANGE [0] range=(1) type=LOOP
8 RANGE [0] range=(2) type=REDUCE
9 MUL [6, 0]
10 CONST [] weakint )",
                        late, R"(
11 ADD [9, 8]
12 ADD [11, 10]
13 INDEX [4, 12]
14 MUL [8, 0]
15 ADD [14, 7]
16 INDEX [5, 15]
17 CAST [13] to=float32
18 CAST [16] to=float32
19 MUL [17, 18]
20 REDUCE [19, 8] ADD axes=()
21 ADD [9, 7]
22 INDEX [3, 21]
23 STORE [22, 20]
24 END [23, 6, 7]
25 SINK [24] kernel name="product"
)");
  };
  compiler::HostTensors arguments;
  for (const uint32_t slot : {0u, 1u, 2u}) arguments[slot] = Numbers(slot == 0 ? v1::FLOAT32 : kHalf, {4096}, slot);
  for (const int late : {0, 32}) {
    const auto graph = ParseGraph(text(late));
    ASSERT_TRUE(graph.ok()) << graph.status();
    const auto compiled = compiler::Compile(*graph, TargetOf("sm_80", 1), {});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_EQ(absl::StrContains(compiled->kernels(0).schedule(), "TC("), late == 0) << compiled->kernels(0).schedule();
    EXPECT_EQ(compiled->kernels(0).gates(), late == 0 ? 0u : 1u);
    const auto got = PtxEngine().Run(*compiled, arguments);
    ASSERT_TRUE(got.ok()) << got.status();
    const auto want = RunInterpreted(*graph, arguments);
    ASSERT_TRUE(want.ok()) << want.status();
    EXPECT_EQ(CompareOutcomes(*got, *want, {}), "") << late;
  }
}

// The first 64 rows of n, which there are for every n of 64 or more, and n rows, which are no tiles'.
TEST(GpuTiles, AreOfPartsOfWhatHasAVariableSize) {
  const auto text = [](absl::string_view rows) {
    return absl::StrCat(R"(0 STACK []
1 PARAM [0] slot=8 dtype=int32 space=ALU name="n" min=64 max=128
2 CONST [] weakint 64
3 STACK [1, 2]
4 PARAM [3] slot=0 dtype=float16
5 STACK [2, 2]
6 PARAM [5] slot=1 dtype=float16
7 CONST [] weakint 0
8 STACK [7, 7]
9 STACK [)",
                        rows, R"(, 2]
10 SHRINK [4, 8, 9]
11 CONST [] weakint 1
12 STACK [)",
                        rows, R"(, 2, 11]
13 CAST [10] to=float32
14 RESHAPE [13, 12]
15 STACK [11, 2, 2]
16 CAST [6] to=float32
17 RESHAPE [16, 15]
18 MUL [14, 17]
19 REDUCE [18] ADD axes=(1)
20 TUPLE [19]
)");
  };
  compiler::HostTensors arguments;
  arguments[0] = Numbers(kHalf, {100, 64}, 1);
  arguments[1] = Numbers(kHalf, {64, 64}, 2);
  for (const std::string architecture : {"sm_80", "sm_90a"}) {
    for (const char* rows : {"2", "1"}) {
      const auto graph = ParseGraph(text(rows));
      ASSERT_TRUE(graph.ok()) << graph.status();
      const auto compiled = compiler::Compile(*graph, TargetOf(architecture, 1), {});
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_EQ(absl::StrContains(compiled->kernels(0).schedule(), "TC(0, 1, MMA_64X64)"), *rows == '2')
          << compiled->kernels(0).schedule();
      EXPECT_EQ(compiled->kernels(0).launch().tensor_maps_size(), 0);
      const auto got = PtxEngine(architecture).Run(*compiled, arguments, {{8, 100}});
      ASSERT_TRUE(got.ok()) << got.status();
      const auto want = RunInterpreted(*graph, arguments, {{8, 100}});
      ASSERT_TRUE(want.ok()) << want.status();
      compiler::HostTensor first = got->results[0];  // has room for the greatest n
      first.bytes.resize(want->results[0].bytes.size());
      EXPECT_EQ(first.bytes, want->results[0].bytes) << architecture << " " << rows;
    }
  }
}

// The same products by AMD's matrix units, on memory that begins at a page or ends with one.
TEST(GpuTiles, OfWavesGiveTheValuesOfTheInterpreter) {
  for (const Case& test : kCases) {
    Made made;
    made.graph.Output(test.product(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
    for (const std::string architecture : {"gfx90a", "gfx942", "gfx1100", "gfx1200"}) {
      SCOPED_TRACE(absl::StrCat(test.name, " on ", architecture));
      const auto compiled = compiler::Compile(graph, TargetOf(architecture, test.cores), {});
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      EXPECT_TRUE(absl::StrContains(compiled->kernels(0).schedule(), "TC(")) << compiled->kernels(0).schedule();
      for (const GuardedBuffer::Side side : {GuardedBuffer::Side::kBegin, GuardedBuffer::Side::kEnd}) {
        AmdEngine engine(architecture, side);
        engine.set_cores(static_cast<uint32_t>(test.cores));
        const auto got = engine.Run(graph, made.arguments, {});
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(CompareTensors(got->results[0], want->results[0], {}), "");
      }
    }
  }
}

// The tiles that are chosen for large products and for fewer cores' worth, with an epilogue, fit in registers.
TEST(GpuTiles, AreKeptInRegisters) {
  const char* ptxas = std::getenv("KILN_PTXAS");
  if (ptxas == nullptr) GTEST_SKIP() << "there is no ptxas: ./dev setup --cuda installs one, KILN_PTXAS names one";
  compiler::Options fast;
  fast.fast_math = true;
  for (const v1::DType in : {kBfloat, kFloat, kByte, kDouble}) {
    for (const bool transposed : {false, true}) {
      Made made;
      const v1::DType sum = in == kByte ? v1::INT32 : in;
      Tensor b = made.Param(in, transposed ? Shape{512, 256} : Shape{256, 512});
      Tensor product = In(sum, made.Param(in, {512, 256}), transposed ? client::Transpose(b) : b);
      made.graph.Output(client::Relu(product + made.Param(sum, {512})));
      const v1::Graph graph = made.graph.Build().value();
      for (const compiler::GpuArchitecture& each : compiler::GpuArchitectures()) {
        for (const int cores : {16, 64}) {
          if (each.kind != v1::Target::NVPTX) continue;
          const bool hopper = absl::string_view(each.name) == "sm_90a";
          if (cores == 16 && hopper && in == kBfloat) continue;  // gpu_wgmma_test's
          if (in != kBfloat && !hopper) continue;
          SCOPED_TRACE(absl::StrCat(each.name, " of ", cores, " cores, ", v1::DType_Name(in),
                                    transposed ? ", B transposed" : ""));
          const auto compiled = compiler::Compile(graph, TargetOf(each.name, cores), fast);
          ASSERT_TRUE(compiled.ok()) << compiled.status();
          EXPECT_EQ(compiled->kernels(0).schedule(), cores == 16 ? "TC(0, 1, MMA_128X128)" : "TC(0, 1, MMA_64X64)");
          const Assembled assembled = Assemble(ptxas, each.name, compiled->object());
          EXPECT_TRUE(assembled.taken) << assembled.said;
          // Bytes that do not lie along k are gathered one by one: there the assembler may lay two words aside.
          const bool gathered = in == kByte && !transposed;
          EXPECT_TRUE(absl::StrContains(assembled.said, " 0 bytes spill stores, 0 bytes spill loads") ||
                      (gathered && absl::StrContains(assembled.said, " 8 bytes spill stores, 8 bytes spill loads")))
              << assembled.said;
          RecordProperty(absl::StrCat(each.name, "_", cores, v1::DType_Name(in), transposed), assembled.said);
        }
      }
    }
  }
}

}  // namespace
}  // namespace kiln::testing
