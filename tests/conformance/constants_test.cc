// Programs whose weights are said to be constant: kernels read copies of these that were
// made beforehand, and values are what the interpreter says all the same.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/cpu_programs.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

class Constants : public ::testing::Test {
 protected:
  // With the parameters of `slots` constant, on each of the engines, twice; adds to `prepared` how many preparations
  // there are for each CPU of CpuModels().
  using Prepared = std::map<std::string, int>;
  template <typename Program>
  Prepared Check(const std::vector<Shape>& shapes, const std::vector<uint32_t>& slots, Program program) {
    SCOPED_TRACE(absl::StrCat("constants ", absl::StrJoin(slots, ", ")));
    client::Graph graph;
    std::vector<Tensor> inputs;
    for (const Shape& shape : shapes) {
      const auto slot = static_cast<uint32_t>(inputs.size());
      inputs.push_back(graph.Param(slot, v1::FLOAT32, shape));
    }
    graph.Output(program(inputs));
    const auto built = graph.Build();
    EXPECT_TRUE(built.ok()) << built.status();
    const auto arguments = *RandomArguments(*built, /*seed=*/1);
    const auto want = RunInterpreted(*built, arguments);
    EXPECT_TRUE(want.ok()) << want.status();
    compiler::Options options;
    options.constants = slots;
    Prepared prepared;
    for (const auto& [cpu, made] : CompiledForEachCpu(*built, options)) prepared[cpu] = made.preparations_size();
    for (CpuEngine* engine : {&one_, &several_}) {
      const auto executable = compiler::Compile(*built, engine->device().target(), options);
      EXPECT_TRUE(executable.ok()) << executable.status();
      const auto loaded = engine->Load(*executable);
      EXPECT_TRUE(loaded.ok()) << loaded.status();
      const auto placed = engine->Place(*loaded, arguments);
      EXPECT_TRUE(placed.ok()) << placed.status();
      for (int iteration = 0; iteration < 2; ++iteration) {
        EXPECT_TRUE(engine->RunPlaced(*placed).ok());
        const auto& result = placed->results[0];
        EXPECT_EQ(std::string(static_cast<const char*>(result.host_data()), result.bytes), want->results[0].bytes);
      }
    }
    return prepared;
  }

  CpuEngine one_{1}, several_{3};
};

TEST_F(Constants, InProductsOfManySizes) {
  Prepared prepared;
  for (const int64_t m : {1, 7, 64}) {
    for (const int64_t n : {5, 48, 100}) {
      for (const int64_t k : {3, 64, 200}) {
        for (const bool transposed : {false, true}) {
          for (const std::vector<uint32_t>& slots : {std::vector<uint32_t>{1}, {0}, {0, 1}}) {
            SCOPED_TRACE(absl::StrCat(m, " x ", n, " over ", k, transposed ? ", transposed" : ""));
            for (const auto& [cpu, count] :
                 Check({{m, k}, transposed ? Shape{n, k} : Shape{k, n}}, slots, [transposed](const auto& in) {
                   return client::Matmul(in[0], transposed ? client::Transpose(in[1]) : in[1]);
                 }))
              prepared[cpu] += count;
          }
        }
      }
    }
  }
  for (const auto& [cpu, count] : prepared) EXPECT_GT(count, 20) << cpu;
}

TEST_F(Constants, InConvolutions) {
  Prepared prepared;
  for (const int64_t kernel : {1, 3}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t channels : {5, 32, 64}) {
        const auto program = [&](const auto& in) {
          return client::Relu(
              client::Conv2d(in[0], in[1], in[2], {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}}));
        };
        for (const auto& [cpu, count] :
             Check({{1, 16, 14, 14}, {channels, 16, kernel, kernel}, {channels}}, {1, 2}, program))
          prepared[cpu] += count;
      }
    }
  }
  // With many cores, copies by each of them pay less often.
  for (const auto& [cpu, count] : prepared) EXPECT_GE(count, cpu == "znver2" ? 2 : 5) << cpu;
}

TEST_F(Constants, UsedTwiceArePreparedOnce) {
  const auto twice = [](const auto& in) {
    const Tensor w = client::Transpose(in[1]);
    return client::Matmul(client::Matmul(in[0], w), w);
  };
  for (const auto& [cpu, count] : Check({{64, 100}, {100, 100}}, {1}, twice)) EXPECT_EQ(count, 1) << cpu;
  for (const auto& [cpu, count] : Check({{8, 64}, {64, 64}}, {}, twice)) EXPECT_EQ(count, 0) << cpu;
  // There is none.
  for (const auto& [cpu, count] : Check({{8, 64}, {64, 64}}, {7}, twice)) EXPECT_EQ(count, 0) << cpu;
}

// A copy of its window for each of 8100 places would take as many times the image as the window has elements.
TEST_F(Constants, AreNotMultiplied) {
  client::Graph graph;
  const Tensor image = graph.Param(0, v1::FLOAT32, {1, 1, 96, 96});
  const Tensor window = graph.Param(1, v1::FLOAT32, {4, 1, 7, 7});
  graph.Output(client::Conv2d(image, window, Tensor(), {}));
  const auto built = graph.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  compiler::Options options;
  options.constants = {0, 1};
  for (const CpuModel& cpu : CpuModels()) {
    SCOPED_TRACE(cpu.arch);
    auto schedules = std::make_shared<compiler::ScheduleMap>();
    const auto plain = compiler::Compile(*built, TargetOf(cpu), compiler::Options());
    ASSERT_TRUE(plain.ok()) << plain.status();
    // Its loops: channels, rows, columns; operand 0 is the image.
    (*schedules)[plain->kernels(0).symbol()] = "LOCAL(2, 0)";
    options.schedules = schedules;
    const auto executable = compiler::Compile(*built, TargetOf(cpu), options);
    ASSERT_TRUE(executable.ok()) << executable.status();
    EXPECT_EQ(executable->kernels(0).schedule(), "LOCAL(2, 0)");
    EXPECT_EQ(executable->preparations_size(), 0);
  }
}

TEST_F(Constants, ThatAProgramWritesAreNone) {
  client::Graph graph;
  const Tensor x = graph.Param(0, v1::FLOAT32, {128, 128});
  const Tensor w = graph.Param(1, v1::FLOAT32, {128, 128});
  graph.Output(client::Matmul(x, w));
  graph.Update(w, w + 1.0);
  const auto built = graph.Build();
  ASSERT_TRUE(built.ok()) << built.status();
  compiler::Options options;
  options.constants = {1};
  for (const auto& [cpu, made] : CompiledForEachCpu(*built, options)) EXPECT_EQ(made.preparations_size(), 0) << cpu;
}

}  // namespace
}  // namespace kiln::testing
