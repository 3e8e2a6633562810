// Products by the matrix unit of a CPU's core: which are made so, and that their values are those of the interpreter,
// bit for bit, with what comes before and after them. dots_test has the extreme values and odd sizes.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "compiler/options/observer.h"
#include "compiler/structure/core_product.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

// Keeps the assembly.
class Listing : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override {
    if (record.name == "assembly") text = record.text();
  }
  bool WantsAssembly() const override { return true; }
  std::string text;
};

struct Case {
  std::string name;
  v1::DType dtype;
  Shape a, b;
  bool transposed = false;       // b is given by rows
  bool of_columns = false;       // a is
  bool bias = false;             // added, and what is below 0 is 0
  bool rounded = false;          // the result is bfloat16
  const char* instruction = "";  // "" if the unit is not used
};

class CoreProducts : public ::testing::TestWithParam<Case> {
 protected:
  static v1::Graph Build(const Case& of) {
    client::Graph graph;
    const bool floats = of.dtype == v1::BFLOAT16;
    const v1::DType sum = floats ? v1::FLOAT32 : v1::INT32;
    Tensor a = graph.Param(0, of.dtype, of.a), b = graph.Param(1, of.dtype, of.b);
    if (of.of_columns) a = client::Transpose(a);
    if (of.transposed) b = client::Transpose(b);
    Tensor made = client::Matmul(client::Cast(a, sum), client::Cast(b, sum));
    if (of.bias) made = client::Relu(made + graph.Param(2, sum, {made.shape().back()}));
    if (of.rounded) made = client::Cast(made, v1::BFLOAT16);
    graph.Output(made);
    return graph.Build().value();
  }
};

TEST_P(CoreProducts, AreThoseOfTheInterpreter) {
  const v1::Graph wire = Build(GetParam());
  compiler::Options options;
  options.fast_math = true;
  Listing listing;
  ASSERT_TRUE(compiler::Compile(wire, TargetWithTiles(), options, &listing).ok());
  const std::string instruction = GetParam().instruction;
  EXPECT_EQ(absl::StrContains(listing.text, "ldtilecfg"), !instruction.empty());
  EXPECT_EQ(absl::StrContains(listing.text, "tilerelease"), !instruction.empty());
  EXPECT_TRUE(absl::StrContains(listing.text, instruction)) << listing.text;

  const compiler::HostTensors arguments = RandomArguments(wire, 1).value();
  const auto want = RunInterpreted(wire, arguments);
  ASSERT_TRUE(want.ok()) << want.status();
  CpuEngine host(3), loops(2);
  loops.set_target(WithTileLoops(loops.device().target()));
  for (CpuEngine* engine : {&host, &loops}) {
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(absl::StrCat(engine == &host ? "this machine's" : "by loops", constant ? ", b constant" : ""));
      if (constant) options.constants = {1};
      const auto program = engine->Load(wire, options);
      ASSERT_TRUE(program.ok()) << program.status();
      for (int run = 0; run < 2; ++run) {  // what was left behind does no harm
        const auto got = engine->RunLoaded(*program, arguments);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(got->results[0].bytes, want->results[0].bytes);
      }
    }
  }
}

constexpr char kBfloats[] = "tdpbf16ps", kSigned[] = "tdpbssd", kUnsigned[] = "tdpbuud";

INSTANTIATE_TEST_SUITE_P(
    Forms, CoreProducts,
    ::testing::Values(Case{"Bfloats", v1::BFLOAT16, {64, 96}, {96, 128}, false, false, false, false, kBfloats},
                      Case{"BfloatsByRows", v1::BFLOAT16, {64, 96}, {128, 96}, true, false, false, false, kBfloats},
                      Case{"BfloatsOfColumns", v1::BFLOAT16, {96, 64}, {96, 128}, false, true, false, false, kBfloats},
                      Case{"Bytes", v1::INT8, {48, 128}, {128, 80}, false, false, false, false, kSigned},
                      Case{"UnsignedBytes", v1::UINT8, {40, 192}, {192, 100}, false, false, false, false, kUnsigned},
                      Case{"Batches", v1::BFLOAT16, {5, 33, 64}, {5, 64, 48}, false, false, false, false, kBfloats},
                      Case{"BatchesByRows", v1::INT8, {4, 20, 64}, {4, 50, 64}, true, false, false, false, kSigned},
                      // A tile of rows is copied, as 37 is a prime.
                      Case{"UnevenRows", v1::BFLOAT16, {37, 64}, {64, 64}, false, false, true, false, kBfloats},
                      Case{"BiasAndRounding", v1::BFLOAT16, {64, 128}, {128, 192}, false, false, true, true, kBfloats},
                      // Each number of b is used so seldom that it is not worth a copy.
                      Case{"FewRows", v1::BFLOAT16, {3, 256}, {256, 512}, false, false, true, true, ""},
                      Case{"ManyColumns", v1::INT8, {32, 64}, {64, 3000}, false, false, true, false, kSigned},
                      // More than one group of panels.
                      Case{"DeepAndWide", v1::BFLOAT16, {64, 2048}, {2048, 640}, false, false, false, false, kBfloats},
                      // Terms of which there are no words.
                      Case{"OddDepth", v1::BFLOAT16, {64, 97}, {97, 64}, false, false, false, false, ""}),
    [](const auto& info) { return info.param.name; });

// What rounds as no operation of docs/ir.md does.
TEST(CoreProductsOfBfloats, AreForFastMath) {
  client::Graph graph;
  const Tensor a = graph.Param(0, v1::BFLOAT16, {64, 96}), b = graph.Param(1, v1::BFLOAT16, {96, 128});
  graph.Output(client::Matmul(client::Cast(a, v1::FLOAT32), client::Cast(b, v1::FLOAT32)));
  for (const bool fast_math : {false, true}) {
    compiler::Options options;
    options.fast_math = fast_math;
    Listing listing;
    ASSERT_TRUE(compiler::Compile(graph.Build().value(), TargetWithTiles(), options, &listing).ok());
    EXPECT_EQ(absl::StrContains(listing.text, kBfloats), fast_math);
  }
}

// A chain of two products, the second of which is one tile in each slice: both sums are in the same registers.
TEST(CoreProductsInAChain, DoNotMix) {
  client::Graph graph;
  const Tensor a = graph.Param(0, v1::INT8, {8, 64, 64}), b = graph.Param(1, v1::INT8, {8, 96, 64}),
               c = graph.Param(2, v1::INT8, {8, 96, 32});
  const auto product = [](Tensor x, Tensor y) {
    return client::Matmul(client::Cast(x, v1::INT32), client::Cast(y, v1::INT32));
  };
  graph.Output(product(client::Cast(product(a, client::Transpose(b)), v1::INT8), c));
  const v1::Graph wire = graph.Build().value();
  const auto small = [](v1::Target target) {
    target.mutable_tuning()->set_l2_bytes(16 << 10);
    target.mutable_tuning()->set_l3_bytes(16 << 10);
    return target;
  };
  Listing listing;
  const auto made = compiler::Compile(wire, small(TargetWithTiles()), {}, &listing);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(absl::StrContains(listing.text, kSigned));
  const compiler::HostTensors arguments = RandomArguments(wire, 1).value();
  const auto want = RunInterpreted(wire, arguments);
  ASSERT_TRUE(want.ok()) << want.status();
  CpuEngine host(3), loops(2);
  host.set_target(small(host.device().target()));
  loops.set_target(small(WithTileLoops(loops.device().target())));
  for (CpuEngine* engine : {&host, &loops}) {
    const auto got = engine->Run(wire, arguments, {});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(got->results[0].bytes, want->results[0].bytes) << (engine == &host ? "this machine's" : "by loops");
  }
}

// So large that nobody may be let in with all of it at once: threads take turns at parts of the rows.
TEST(CoreProductsOfManyRows, Compile) {
  client::Graph graph;
  const Tensor a = graph.Param(0, v1::INT8, {1 << 20, 4096}), b = graph.Param(1, v1::INT8, {4096, 4096});
  graph.Output(client::Matmul(client::Cast(a, v1::INT32), client::Cast(b, v1::INT32)));
  v1::Target target = TargetWithTiles();
  target.mutable_tuning()->set_cores(1);
  const auto made = compiler::Compile(graph.Build().value(), target, {});
  EXPECT_TRUE(made.ok()) << made.status();
}

}  // namespace
}  // namespace kiln::testing
