// Products of matrices over so many terms that a panel of all of them is too large to be copied:
// the terms are folded a part at a time, the accumulators waiting in local memory. Values are
// those of the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/cpu_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Case {
  int64_t m, n, k;
  bool turned = false;  // b is given by rows
  int64_t batch = 1;
  bool parts = true;  // whether the fold is cut
};

class DeepProducts : public ::testing::TestWithParam<Case> {};

TEST_P(DeepProducts, AreThoseOfTheDefinition) {
  const auto [m, n, k, turned, batch, parts] = GetParam();
  client::Graph graph;
  const Tensor a = graph.Param(0, v1::FLOAT32, {batch, m, k});
  const Tensor b = graph.Param(1, v1::FLOAT32, turned ? Shape{batch, n, k} : Shape{batch, k, n});
  const Tensor bias = graph.Param(2, v1::FLOAT32, {n});
  graph.Output(client::Relu(client::Matmul(a, turned ? client::Transpose(b) : b) + bias));
  const v1::Graph wire = graph.Build().value();
  const compiler::HostTensors arguments = RandomArguments(wire, 1).value();

  const std::vector<float> x = FloatsOf(arguments.at(0).bytes), y = FloatsOf(arguments.at(1).bytes),
                           z = FloatsOf(arguments.at(2).bytes);
  std::vector<float> want(static_cast<size_t>(batch * m * n));
  for (int64_t row = 0; row < batch * m; ++row) {
    const int64_t at = row / m * n * k;
    for (int64_t j = 0; j < n; ++j) {
      float sum = z[j];  // whole numbers: exact in any order
      for (int64_t l = 0; l < k; ++l) sum += x[row * k + l] * y[at + (turned ? j * k + l : l * n + j)];
      want[row * n + j] = std::max(sum, 0.0F);
    }
  }

  for (const uint32_t threads : {1, 3}) {
    CpuEngine engine(threads);
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(absl::StrCat(threads, " threads", constant ? ", b constant" : ""));
      compiler::Options options;
      if (constant) options.constants = {1};
      const auto made = compiler::Compile(wire, engine.device().target(), options);
      ASSERT_TRUE(made.ok()) << made.status();
      const std::string& schedule = made->kernels(0).schedule();
      if (engine.device().target().tuning().vector_bytes() == 64) {
        EXPECT_EQ(absl::StrContains(schedule, ", REDUCE); SWAP("), parts) << schedule;
        EXPECT_EQ(made->preparations_size(), constant && absl::StrContains(schedule, "LOCAL") ? 1 : 0) << schedule;
      }
      const auto program = engine.Load(*made);
      ASSERT_TRUE(program.ok()) << program.status();
      for (int run = 0; run < 2; ++run) {  // what was left behind does no harm
        const auto got = engine.RunLoaded(*program, arguments);
        ASSERT_TRUE(got.ok()) << got.status();
        ASSERT_EQ(FloatsOf(got->results[0].bytes), want);
      }
    }
  }
}

// A turn of the outermost loop is short enough to be let in: of all rows at once it would not be.
TEST(LargeProducts, Compile) {
  v1::Target target = CpuEngine(1).device().target();
  target.mutable_tuning()->set_cores(1);
  for (const auto& [m, n, k] : {std::tuple{200'000, 64, 3000}, {16384, 16384, 16384}}) {
    client::Graph graph;
    graph.Output(client::Matmul(graph.Param(0, v1::FLOAT32, {m, k}), graph.Param(1, v1::FLOAT32, {k, n})));
    const auto made = compiler::Compile(graph.Build().value(), target, {});
    EXPECT_TRUE(made.ok()) << made.status();
  }
}

// More rows than anybody has, so that no search over their divisors may take its time: refused, or not, but answered.
TEST(LargeProducts, AreAnswered) {
  const v1::Target target = CpuEngine(2).device().target();
  for (const int64_t k : {64, 20000}) {
    client::Graph graph;
    const int64_t m = (int64_t{1} << 40) - 87;  // a prime
    graph.Output(client::Matmul(graph.Param(0, v1::FLOAT32, {m, k}), graph.Param(1, v1::FLOAT32, {k, 64})));
    const auto wire = graph.Build();
    ASSERT_TRUE(wire.ok()) << wire.status();
    EXPECT_FALSE(compiler::Compile(*wire, target, {}).ok());
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DeepProducts,
                         ::testing::Values(Case{64, 64, 20000}, Case{64, 64, 20000, true}, Case{33, 70, 16000},
                                           Case{50, 61, 9000, true}, Case{16, 32, 16384, false, 3},
                                           Case{1, 64, 20000, false, 1, false},     // no copy pays
                                           Case{24, 64, 20011, false, 1, false}));  // a prime

}  // namespace
}  // namespace kiln::testing
