// Convolutions, and other products whose factors move by more than steps or are gated, by the matrix units of GPUs
// (opt/tensor_tile.h): values against the interpreter, by the machines of tests/support/ptx, which finds every access
// outside of an operand and every race, and of tests/support/amd. Numbers are small and whole, so that every order of a
// sum gives the same.
#include <gtest/gtest.h>

#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/conv.h"
#include "client/cpp/nn.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "tests/conformance/gpu/products.h"
#include "tests/support/compare.h"
#include "tests/support/engines/amd_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/engines/ptx_engine.h"
#include "tests/support/ptxas.h"

namespace kiln::testing {
namespace {

using client::ConvOptions;
using client::Shape;
using client::Tensor;

struct Case {
  const char* name;
  Tensor (*convolution)(Made& made);
  const char* schedule;
  const char* architecture = "sm_80";
  uint64_t beside = 0;  // bytes behind an aligned place where arguments begin
};

constexpr v1::DType kHalf = v1::FLOAT16, kBfloat = v1::BFLOAT16;

Tensor Conv(Made& m, const Shape& image, const Shape& weight, const ConvOptions& options = {},
            v1::DType dtype = kHalf) {
  const Tensor x = m.Param(dtype, image);
  return client::Conv2d(x, m.Param(dtype, weight), Tensor(), options);
}

// Of an image (batch, height, width, channels), and filters (out, height, width, channels), of 3x3.
Tensor ChannelsLast(Made& m, const Shape& image, int64_t out) {
  const Tensor x = client::Permute(m.Param(kHalf, image), {0, 3, 1, 2});
  const Tensor w = client::Permute(m.Param(kHalf, {out, 3, 3, image[3]}), {0, 3, 1, 2});
  return client::Permute(client::Conv2d(x, w, Tensor(), {.padding = {1, 1}}), {0, 2, 3, 1});
}

const Case kCases[] = {
    {"1x1", [](Made& m) { return Conv(m, {1, 32, 8, 8}, {32, 32, 1, 1}); }, "TC(0, 1, MMA_32X32)"},
    {"1x1, a batch", [](Made& m) { return Conv(m, {2, 16, 8, 8}, {32, 16, 1, 1}); }, "TC(1, 2, MMA_32X32)"},
    {"1x1, every other pixel", [](Made& m) { return Conv(m, {1, 32, 14, 14}, {32, 32, 1, 1}, {.stride = {2, 2}}); },
     "FUSE(1); TC(0, 1, MMA_32X32)"},
    {"3x3 without padding", [](Made& m) { return Conv(m, {1, 16, 10, 10}, {32, 16, 3, 3}); },
     "FUSE(1); TC(0, 1, MMA_32X32)"},
    {"3x3, large tiles", [](Made& m) { return Conv(m, {1, 8, 16, 8}, {128, 8, 3, 3}, {.padding = {1, 1}}); },
     "FUSE(1); TC(0, 1, MMA_128X128)"},
    {"3x3, a batch of odd sizes, beside an aligned place",
     [](Made& m) { return Conv(m, {2, 5, 9, 7}, {33, 5, 3, 3}, {.padding = {1, 1}}, kBfloat); },
     "FUSE(2); TC(1, 2, MMA_64X64)", "sm_90a", 2},
    {"3x3, every other pixel",
     [](Made& m) { return Conv(m, {1, 16, 16, 16}, {64, 16, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}); },
     "FUSE(1); TC(0, 1, MMA_64X64)", "sm_90a"},
    {"7x7, every other pixel",
     [](Made& m) { return Conv(m, {1, 3, 19, 18}, {32, 3, 7, 7}, {.stride = {2, 2}, .padding = {3, 3}}); },
     "FUSE(1); TC(0, 1, MMA_32X32)"},
    {"5x3, dilated, padded in one direction",
     [](Made& m) { return Conv(m, {1, 4, 14, 9}, {32, 4, 5, 3}, {.padding = {4, 0}, .dilation = {2, 1}}); },
     "FUSE(1); TC(0, 1, MMA_32X32)"},
    {"3x3, channels last, a batch", [](Made& m) { return ChannelsLast(m, {2, 5, 7, 16}, 32); },
     "FUSE(0); FUSE(0); TC(0, 1, MMA_32X32)"},
    {"3x3, channels last, of an odd number", [](Made& m) { return ChannelsLast(m, {1, 8, 8, 5}, 24); },
     "FUSE(0); TC(0, 1, MMA_32X32)"},
    {"3x3, and what follows",
     [](Made& m) {
       const Tensor x = m.Param(kHalf, {1, 16, 8, 8});
       const Tensor made = client::Conv2d(x, m.Param(kHalf, {16, 16, 3, 3}), m.Param(kHalf, {16}), {.padding = {1, 1}});
       return client::Cast(client::Relu(made + x), v1::FLOAT32);
     },
     "FUSE(1); TC(0, 1, MMA_32X32)"},
};

TEST(GpuConvolutions, GiveTheValuesOfTheInterpreter) {
  for (const Case& test : kCases) {
    SCOPED_TRACE(test.name);
    Made made;
    made.graph.Output(test.convolution(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << want.status();
    const auto compiled = compiler::Compile(graph, TargetOf(test.architecture, 1), {});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    ASSERT_EQ(compiled->kernels_size(), 1);
    EXPECT_EQ(compiled->kernels(0).schedule(), test.schedule);
    PtxEngine engine(test.architecture);
    engine.DetectGlobalRaces();
    engine.BeginBeside(test.beside);
    const auto got = engine.Run(*compiled, made.arguments);
    ASSERT_TRUE(got.ok()) << got.status() << "\n" << compiled->object();
    EXPECT_EQ(CompareTensors(got->results[0], want->results[0], {}), "");
  }
}

// By AMD's matrix units, on memory that begins at a page or ends with one.
TEST(GpuConvolutions, OfWavesGiveTheValuesOfTheInterpreter) {
  const std::string architectures[] = {"gfx90a", "gfx942", "gfx1100", "gfx1200"};
  size_t next = 0;
  for (const Case& test : kCases) {
    Made made;
    made.graph.Output(test.convolution(made));
    const v1::Graph graph = made.graph.Build().value();
    const auto want = RunInterpreted(graph, made.arguments);
    ASSERT_TRUE(want.ok()) << test.name << ": " << want.status();
    const std::string& architecture = architectures[next++ % 4];
    SCOPED_TRACE(absl::StrCat(test.name, " on ", architecture));
    const auto compiled = compiler::Compile(graph, TargetOf(architecture, 1), {});
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    EXPECT_TRUE(absl::StrContains(compiled->kernels(0).schedule(), "TC(")) << compiled->kernels(0).schedule();
    AmdEngine engine(architecture, next % 8 < 4 ? GuardedBuffer::Side::kBegin : GuardedBuffer::Side::kEnd);
    engine.set_cores(1);
    const auto got = engine.Run(graph, made.arguments, {});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(CompareTensors(got->results[0], want->results[0], {}), "");
  }
}

// ResNet-50's, in float16, one of each kind, of a batch of 8 on 128 cores; and that the largest fit in registers.
TEST(GpuConvolutions, OfResNetAreTiles) {
  struct Layer {
    int64_t in, out, size, kernel, stride;
    const char *first, *last;  // the schedules, of channels before rows and columns, and behind them
    bool assembled = false;
  };
  const Layer layers[] = {
      {3, 64, 224, 7, 2, "FUSE(2); TC(1, 2, MMA_64X64)", "FUSE(0); FUSE(0); TC(0, 1, MMA_64X64)"},
      {64, 64, 56, 1, 1, "TC(1, 2, MMA_64X64)", "TC(0, 1, MMA_64X64)"},
      {64, 64, 56, 3, 1, "FUSE(2); TC(1, 2, MMA_64X64)", "FUSE(0); FUSE(0); TC(0, 1, MMA_64X64)", true},
      {64, 256, 56, 1, 1, "TC(1, 2, WGMMA_128X128)", "TC(0, 1, WGMMA_128X128)"},
      {256, 512, 56, 1, 2, "FUSE(2); TC(1, 2, MMA_128X128)", "TC(0, 2, WGMMA_128X128)", true},
      {128, 128, 56, 3, 2, "FUSE(2); TC(1, 2, MMA_64X64)", "FUSE(0); FUSE(0); TC(0, 1, MMA_64X64)"},
      {256, 256, 14, 3, 1, "FUSE(2); TC(1, 2, MMA_64X64)", "FUSE(0); FUSE(0); TC(0, 1, MMA_32X32)"},
      {1024, 2048, 14, 1, 2, "FUSE(2); TC(1, 2, MMA_64X64)", "FUSE(0); TC(0, 1, MMA_64X64)"},
      {512, 512, 7, 3, 1, "FUSE(2); TC(1, 2, MMA_32X32)", "FUSE(0); FUSE(0); TC(0, 1, MMA_32X32)"},
      {512, 2048, 7, 1, 1, "TC(1, 2, MMA_64X64)", "TC(0, 1, MMA_64X64)"},
  };
  const char* ptxas = std::getenv("KILN_PTXAS");
  for (const bool last : {false, true}) {
    for (const Layer& layer : layers) {
      SCOPED_TRACE(absl::StrCat(layer.in, " to ", layer.out, " of ", layer.size, ", ", layer.kernel, "x", layer.kernel,
                                ", stride ", layer.stride, last ? ", channels last" : ""));
      const int64_t n = 8, k = layer.kernel, size = layer.size;
      client::Graph maker;
      Tensor x = maker.Param(0, kHalf, last ? Shape{n, size, size, layer.in} : Shape{n, layer.in, size, size});
      Tensor w = maker.Param(1, kHalf, last ? Shape{layer.out, k, k, layer.in} : Shape{layer.out, layer.in, k, k});
      if (last) {
        x = client::Permute(x, {0, 3, 1, 2});
        w = client::Permute(w, {0, 3, 1, 2});
      }
      Tensor made = client::Conv2d(x, w, maker.Param(2, kHalf, {layer.out}),
                                   {.stride = {layer.stride, layer.stride}, .padding = {k / 2, k / 2}});
      made = client::Relu(made);
      maker.Output(last ? client::Permute(made, {0, 2, 3, 1}) : made);
      const auto compiled = compiler::Compile(maker.Build().value(), TargetOf("sm_90a", 128), {});
      ASSERT_TRUE(compiled.ok()) << compiled.status();
      ASSERT_EQ(compiled->kernels_size(), 1);
      EXPECT_EQ(compiled->kernels(0).schedule(), last ? layer.last : layer.first);
      if (ptxas == nullptr || !layer.assembled) continue;
      const Assembled assembled = Assemble(ptxas, "sm_90a", compiled->object());
      EXPECT_TRUE(assembled.taken) << assembled.said;
      EXPECT_TRUE(absl::StrContains(assembled.said, " 0 bytes spill stores, 0 bytes spill loads")) << assembled.said;
    }
  }
}

}  // namespace
}  // namespace kiln::testing
