// Images between convolutions lie as the convolutions that read them want (compiler/schedule/layouts.h): which do, and
// that values are those of the interpreter, bit for bit, also where others read them.
#include "compiler/schedule/layouts.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "compiler/options/observer.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Tensor;

// Keeps what the pass says.
class Chosen : public compiler::CompileObserver {
 public:
  void OnPass(const compiler::PassRecord& record) override {
    if (record.name == "choose layouts") text = record.text();
  }
  std::string text;
};

struct Network {
  client::Graph graph;
  uint32_t slots = 0;

  Tensor Image(int64_t channels, int64_t side) { return graph.Param(slots++, v1::FLOAT32, {1, channels, side, side}); }
  Tensor Convolution(Tensor x, int64_t channels, int64_t kernel, int64_t stride = 1, int64_t groups = 1) {
    const Tensor weight = graph.Param(slots++, v1::FLOAT32, {channels, x.dim(1) / groups, kernel, kernel});
    client::ConvOptions options;
    options.stride = {stride, stride};
    options.padding = {kernel / 2, kernel / 2};
    options.groups = groups;
    return client::Relu(client::Conv2d(x, weight, graph.Param(slots++, v1::FLOAT32, {channels}), options));
  }
};

// The values of `make` on this machine, with schedules for each CPU of CpuModels(); what was chosen.
std::string Check(const std::function<void(Network&)>& make) {
  Network network;
  make(network);
  const v1::Graph wire = network.graph.Build().value();
  const compiler::HostTensors arguments = RandomArguments(wire, 1).value();
  const auto want = RunInterpreted(wire, arguments);
  EXPECT_TRUE(want.ok()) << want.status();
  CpuEngine engine(3);
  const v1::Target host = engine.device().target();
  for (const CpuModel& cpu : CpuModels()) {
    engine.set_target(TunedFor(cpu, host));
    for (const bool constant : {false, true}) {
      compiler::Options options;
      for (uint32_t slot = 1; constant && slot < network.slots; ++slot) options.constants.push_back(slot);
      const auto got = engine.Run(wire, arguments, options);
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok() || !want.ok()) continue;
      EXPECT_EQ(got->results[0].bytes, want->results[0].bytes) << cpu.arch;
      for (const auto& [slot, tensor] : want->written) EXPECT_EQ(got->written.at(slot).bytes, tensor.bytes) << cpu.arch;
    }
  }
  Chosen chosen;
  EXPECT_TRUE(compiler::Compile(wire, TargetOf(CpuModels()[0]), {}, &chosen).ok());
  return chosen.text;
}

TEST(Layouts, BetweenConvolutionsChannelsAreLast) {
  const std::string chosen = Check([](Network& n) {
    const Tensor x = n.Convolution(n.Image(3, 12), 32, 3);
    n.graph.Output(n.Convolution(n.Convolution(x, 48, 1), 16, 3, 2));
  });
  // The results of the first two, and the second's with zeros around it; the first image has too few channels.
  EXPECT_TRUE(absl::StartsWith(chosen, "3 values")) << chosen;
  EXPECT_TRUE(absl::StrContains(chosen, "(1, 32, 12, 12) as (0, 2, 3, 1)")) << chosen;
  EXPECT_TRUE(absl::StrContains(chosen, "(1, 48, 14, 14) as (0, 2, 3, 1)")) << chosen;
}

TEST(Layouts, WhatIsAddedLiesAlike) {
  const std::string chosen = Check([](Network& n) {
    const Tensor x = n.Convolution(n.Image(16, 10), 32, 1);
    n.graph.Output(n.Convolution(client::Relu(n.Convolution(n.Convolution(x, 16, 3), 32, 1) + x), 16, 1));
  });
  EXPECT_TRUE(absl::StrContains(chosen, "(1, 32, 10, 10) as (0, 2, 3, 1)")) << chosen;
  EXPECT_FALSE(absl::StrContains(chosen, "(0, 1,")) << chosen;
}

// What a caller has lies as its shape says, and so does what is no factor of weights.
TEST(Layouts, NoneWithoutProductsByWeights) {
  EXPECT_TRUE(absl::StartsWith(Check([](Network& n) {
                                 const Tensor x = client::Relu(n.Image(32, 10));
                                 const Tensor rows = client::Reshape(x, {32, 100});
                                 n.graph.Output(client::Matmul(rows, client::Transpose(rows)));
                               }),
                               "0 values"));
  EXPECT_TRUE(
      absl::StartsWith(Check([](Network& n) { n.graph.Output(n.Convolution(n.Image(32, 10), 16, 3)); }), "0 values"));
}

// Each channel by its own filter: nothing is reduced along channels.
TEST(Layouts, OfDepthwiseConvolutions) {
  Check([](Network& n) {
    const Tensor x = n.Convolution(n.Image(16, 9), 32, 1);
    n.graph.Output(n.Convolution(n.Convolution(x, 32, 3, 1, 32), 16, 1));
  });
}

TEST(Layouts, WhereOthersReadThem) {
  Check([](Network& n) {
    const Tensor x = n.Convolution(n.Image(16, 8), 32, 1);
    const Tensor pooled = client::Max(n.Convolution(x, 32, 1), {2, 3});
    n.graph.Output(client::Reshape(pooled, {1, 32, 1, 1}) + x + client::Max(x, {1}, true));
  });
}

// What is kept in a parameter lies as its shape says, also where a product would have it otherwise.
TEST(Layouts, NotOfWhatIsStoredInPlace) {
  Check([](Network& n) {
    const Tensor p = n.graph.Param(n.slots++, v1::FLOAT32, {16, 16, 16});
    const Tensor moved = n.graph.Assign(p, client::Permute(p, {2, 0, 1}) * 2.0);
    const Tensor weight = n.graph.Param(n.slots++, v1::FLOAT32, {64, 16});
    n.graph.Output(client::Matmul(weight, client::Reshape(moved, {16, 256})));
  });
}

// A padding that is larger than any image is no buffer.
TEST(Layouts, NotOfFarPlaces) {
  const std::string chosen = Check([](Network& n) {
    const Tensor weight = n.graph.Param(n.slots++, v1::FLOAT32, {16, 16, 3, 3});
    const Tensor x = client::Relu(n.Convolution(n.Image(16, 8), 16, 1));
    n.graph.Output(client::Conv2d(x, weight, Tensor(), {.stride = {64, 64}, .padding = {64, 64}}));
  });
  EXPECT_FALSE(absl::StrContains(chosen, "PAD")) << chosen;
}

}  // namespace
}  // namespace kiln::testing
