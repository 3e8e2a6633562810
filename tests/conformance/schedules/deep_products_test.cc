// Products of matrices over so many terms that a panel of all of them is too large to be copied:
// the terms are reduced a part at a time, the accumulators waiting in local memory. Values are
// those of the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <regex>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

std::vector<float> FloatsOf(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// CPUs of CpuModels().
using Archs = std::set<std::string>;
const Archs kAll = {"nehalem", "znver2", "cascadelake", "sapphirerapids"};

struct Case {
  int64_t m, n, k;
  bool transposed = false;  // b is given by rows
  int64_t batch = 1;
  Archs parts = kAll;              // where the reduction is cut
  Archs parts_of_constant = kAll;  // where it is if a copy of b costs nothing: that is made beforehand
};

class DeepProducts : public ::testing::TestWithParam<Case> {};

TEST_P(DeepProducts, AreThoseOfTheDefinition) {
  const auto [m, n, k, transposed, batch, parts, parts_of_constant] = GetParam();
  client::Graph graph;
  const Tensor a = graph.Param(0, v1::FLOAT32, {batch, m, k});
  const Tensor b = graph.Param(1, v1::FLOAT32, transposed ? Shape{batch, n, k} : Shape{batch, k, n});
  const Tensor bias = graph.Param(2, v1::FLOAT32, {n});
  graph.Output(client::Relu(client::Matmul(a, transposed ? client::Transpose(b) : b) + bias));
  const v1::Graph wire = graph.Build().value();
  const compiler::HostTensors arguments = RandomArguments(wire, 1).value();

  const std::vector<float> x = FloatsOf(arguments.at(0).bytes), y = FloatsOf(arguments.at(1).bytes),
                           z = FloatsOf(arguments.at(2).bytes);
  std::vector<float> want(static_cast<size_t>(batch * m * n));
  for (int64_t row = 0; row < batch * m; ++row) {
    const int64_t at = row / m * n * k;
    for (int64_t j = 0; j < n; ++j) {
      float sum = z[j];  // whole numbers: exact in any order
      for (int64_t l = 0; l < k; ++l) sum += x[row * k + l] * y[at + (transposed ? j * k + l : l * n + j)];
      want[row * n + j] = std::max(sum, 0.0F);
    }
  }

  CpuEngine engine(3);
  std::set<std::string> schedules;  // each is run once
  for (const CpuModel& cpu : CpuModels()) {
    const v1::Target target = TunedFor(cpu, engine.device().target());
    for (const bool constant : {false, true}) {
      SCOPED_TRACE(absl::StrCat(cpu.arch, constant ? ", b constant" : ""));
      compiler::Options options;
      if (constant) options.constants = {1};
      const auto made = compiler::Compile(wire, target, options);
      ASSERT_TRUE(made.ok()) << made.status();
      const std::string& schedule = made->kernels(0).schedule();
      EXPECT_EQ(absl::StrContains(schedule, ", REDUCE); SWAP("),
                (constant ? parts_of_constant : parts).count(cpu.arch) == 1)
          << schedule;
      const bool copies_b = std::regex_search(schedule, std::regex("LOCAL\\([0-9]+, 1\\)"));
      EXPECT_EQ(made->preparations_size(), constant && copies_b ? 1 : 0) << schedule;
      if (!schedules.insert(absl::StrCat(cpu.vector_bytes, schedule, constant)).second) continue;
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

// An iteration of the outermost loop is short enough to be let in: of all rows at once it would not be.
TEST(LargeProducts, Compile) {
  for (const auto& [m, n, k] : {std::tuple{200'000, 64, 3000}, {16384, 16384, 16384}}) {
    client::Graph graph;
    graph.Output(client::Matmul(graph.Param(0, v1::FLOAT32, {m, k}), graph.Param(1, v1::FLOAT32, {k, n})));
    for (const CpuModel& cpu : CpuModels()) {
      v1::Target target = TargetOf(cpu);
      target.mutable_tuning()->set_cores(1);
      const auto made = compiler::Compile(graph.Build().value(), target, {});
      EXPECT_TRUE(made.ok()) << cpu.arch << ": " << made.status();
    }
  }
}

// More rows than anybody has, so that no search over their divisors may take its time: refused, or not, but answered.
TEST(LargeProducts, AreAnswered) {
  for (const int64_t k : {64, 20000}) {
    client::Graph graph;
    const int64_t m = (int64_t{1} << 40) - 87;  // a prime
    graph.Output(client::Matmul(graph.Param(0, v1::FLOAT32, {m, k}), graph.Param(1, v1::FLOAT32, {k, 64})));
    const auto wire = graph.Build();
    ASSERT_TRUE(wire.ok()) << wire.status();
    for (const CpuModel& cpu : CpuModels()) EXPECT_FALSE(compiler::Compile(*wire, TargetOf(cpu), {}).ok()) << cpu.arch;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DeepProducts,
                         ::testing::Values(Case{64, 64, 20000}, Case{64, 64, 20000, true},
                                           Case{33, 70, 16000},
                                           Case{50, 61, 9000, true},
                                           Case{16, 32, 16384, false, 3},
                                           Case{1, 64, 20000, false, 1, {}, {}},     // no copy pays
                                           Case{24, 64, 20011, false, 1, {}, {}}));  // a prime

}  // namespace
}  // namespace kiln::testing
