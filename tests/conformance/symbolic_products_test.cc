// Products and convolutions of which each run says how many rows or images there are: tiled and packed as those of
// numbers are, for every number the interpreter's values.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/compare.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Size;
using client::Sizes;
using client::Tensor;

constexpr uint32_t kCount = 9;  // the slot of what varies
constexpr int64_t kMost = 11;

class SymbolicProducts : public ::testing::Test {
 protected:
  // What `program` makes of parameters of these shapes, the second of which is a constant in half of the compiles.
  // -1 is what varies.
  template <typename Program>
  void Check(const std::string& name, const std::vector<std::vector<int64_t>>& shapes, Program program) {
    client::Graph graph;
    const Size count = graph.Variable(kCount, 1, kMost, "count");
    std::vector<Tensor> inputs;
    for (const std::vector<int64_t>& shape : shapes) {
      Sizes sizes;
      for (const int64_t size : shape) sizes.push_back(size < 0 ? count : Size(size));
      inputs.push_back(graph.Param(static_cast<uint32_t>(inputs.size()), v1::FLOAT32, sizes));
    }
    graph.Output(program(inputs));
    const auto built = graph.Build();
    ASSERT_TRUE(built.ok()) << built.status();
    struct Run {
      compiler::VariableValues values;
      compiler::HostTensors arguments;
      compiler::InterpResult want;
    };
    std::vector<Run> runs;
    for (const int64_t number : {int64_t{1}, int64_t{2}, int64_t{5}, kMost}) {
      const compiler::VariableValues values = {{kCount, number}};
      const auto arguments = RandomArguments(*built, static_cast<uint64_t>(number), values);
      ASSERT_TRUE(arguments.ok()) << arguments.status();
      const auto want = RunInterpreted(*built, *arguments, values);
      ASSERT_TRUE(want.ok()) << want.status();
      runs.push_back({values, *arguments, *want});
    }
    for (const bool small : {false, true}) {
      for (const bool constant : {false, true}) {
        SCOPED_TRACE(absl::StrCat(name, small ? ", a small L2, three cores" : "", constant ? ", packed" : ""));
        CpuEngine& engine = small ? several_ : one_;
        compiler::Options options;
        if (constant) options.constants = {1};
        v1::Target target = engine.device().target();
        target.mutable_tuning()->set_l2_bytes(small ? 32 << 10 : 1 << 20);
        const auto executable = compiler::Compile(*built, target, options);
        ASSERT_TRUE(executable.ok()) << executable.status();
        const auto loaded = engine.Load(*executable);
        ASSERT_TRUE(loaded.ok()) << loaded.status();
        for (const Run& run : runs) {
          const auto got = engine.RunLoaded(*loaded, run.arguments, run.values);
          ASSERT_TRUE(got.ok()) << got.status();
          EXPECT_EQ(CompareOutcomes(*got, run.want, {.zero_signs = false}), "") << run.values.at(kCount);
        }
      }
    }
  }

  CpuEngine one_{1}, several_{3};
};

TEST_F(SymbolicProducts, OfRows) {
  const auto product = [](const auto& in) { return client::Relu(client::Matmul(in[0], in[1])); };
  for (const int64_t columns : {3, 100}) {
    for (const int64_t terms : {3, 200}) {
      Check(absl::StrCat(columns, " over ", terms), {{-1, terms}, {terms, columns}}, product);
      Check(absl::StrCat(columns, " over ", terms, ", transposed"), {{-1, terms}, {columns, terms}},
            [](const auto& in) { return client::Matmul(in[0], client::Transpose(in[1])); });
    }
  }
  Check("rows of rows", {{-1, 6, 40}, {40, 50}}, product);
  Check("rows of many", {{2, -1, 40}, {40, 50}}, product);
}

TEST_F(SymbolicProducts, OfEach) {
  const auto product = [](const auto& in) { return client::Matmul(in[0], in[1]); };
  Check("one by one", {{-1, 17, 40}, {-1, 40, 33}}, product);
  Check("heads", {{-1, 3, 17, 40}, {-1, 3, 40, 33}}, product);
  Check("transposed", {{-1, 3, 17, 40}, {-1, 3, 33, 40}},
        [](const auto& in) { return client::Matmul(in[0], client::Transpose(in[1])); });
  Check("counted within", {{3, -1, 17, 40}, {3, -1, 40, 33}}, product);
}

TEST_F(SymbolicProducts, OfColumns) {
  Check("columns", {{30, 40}, {40, -1}}, [](const auto& in) { return client::Matmul(in[0], in[1]); });
  Check("all", {{-1, 40}, {-1, 40}}, [](const auto& in) { return client::Matmul(in[0], client::Transpose(in[1])); });
}

TEST_F(SymbolicProducts, Convolutions) {
  for (const int64_t kernel : {1, 3, 7}) {
    for (const int64_t stride : {1, 2}) {
      const int64_t channels = stride == 1 ? 5 : 32;
      Check(absl::StrCat(channels, " channels, ", kernel, " wide, by ", stride),
            {{-1, 6, 14, 14}, {channels, 6, kernel, kernel}, {channels}}, [&](const auto& in) {
              return client::Relu(client::Conv2d(in[0], in[1], in[2],
                                                 {.stride = {stride, stride}, .padding = {kernel / 2, kernel / 2}}));
            });
    }
  }
}

}  // namespace
}  // namespace kiln::testing
