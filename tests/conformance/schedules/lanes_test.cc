// Lanes that are worked on by other instructions than those that the graph names: masks of padding, which are counted
// (compiler/target/llvm/values/affine.h), and quotients by constants, which are products (values/quotient.h).
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "client/cpp/elementwise.h"
#include "client/cpp/movement.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"

namespace kiln::testing {
namespace {

using compiler::DType;

class Lanes : public ::testing::TestWithParam<CpuModel> {
 protected:
  template <class T>
  std::vector<T> ResultOf(client::Graph& graph, DType dtype, const std::vector<T>& x) {
    compiler::HostTensor argument{dtype, {static_cast<int64_t>(x.size())}, std::string(sizeof(T) * x.size(), '\0')};
    std::memcpy(argument.bytes.data(), x.data(), argument.bytes.size());
    const v1::Target target = TunedFor(GetParam(), engine_.device().target());
    const auto program = engine_.Load(compiler::Compile(graph.Build().value(), target, {}).value());
    EXPECT_TRUE(program.ok()) << program.status();
    if (!program.ok()) return {};
    const auto got = engine_.RunLoaded(*program, {{0, argument}});
    EXPECT_TRUE(got.ok()) << got.status();
    if (!got.ok()) return {};
    std::vector<T> values(got->results[0].bytes.size() / sizeof(T));
    std::memcpy(values.data(), got->results[0].bytes.data(), got->results[0].bytes.size());
    return values;
  }

  // Of a fill before and behind it.
  template <class T>
  void ExpectPadded(v1::DType wire, DType dtype, int64_t count) {
    std::vector<T> x;
    for (int64_t i = 0; i < count; ++i) x.push_back(static_cast<T>(i % 100 + 1));
    for (const int64_t before : {0, 1, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 127, 128, 255, 257}) {
      client::Graph graph;
      graph.Output(client::Pad(graph.Param(0, wire, {count}), {{before, 300 - before}}, 5));
      std::vector<T> wanted(static_cast<size_t>(count + 300), T{5});
      std::copy(x.begin(), x.end(), wanted.begin() + before);
      EXPECT_EQ(ResultOf(graph, dtype, x), wanted) << count << " behind " << before;
    }
  }

  CpuEngine engine_{1};
};

TEST_P(Lanes, PaddingEndsInAnyLane) {
  for (const int64_t count : {1, 40, 100, 513}) {
    ExpectPadded<int8_t>(v1::INT8, DType::kInt8, count);
    ExpectPadded<float>(v1::FLOAT32, DType::kFloat32, count);
  }
}

TEST_P(Lanes, QuotientsByConstantsAreQuotients) {
  std::mt19937 random(3);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> x = {0.0f, -0.0f, kInf, -kInf, std::nanf(""), 1e-45f, 1e-38f, -3e38f};
  while (x.size() < 4096) x.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (const float d : {0.1f, 3.0f, -49.0f, 6.0f, 0.25f, 1e-40f, 0.0f, 127.5f, 3e38f}) {
    client::Graph graph;
    graph.Output(graph.Param(0, v1::FLOAT32, {4096}) / d);
    const std::vector<float> got = ResultOf(graph, DType::kFloat32, x);
    ASSERT_EQ(got.size(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const float wanted = x[i] / d;
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(got[i])) << x[i] << " / " << d;
      } else {
        EXPECT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(wanted)) << x[i] << " / " << d;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpus, Lanes, ::testing::ValuesIn(CpuModels().begin(), CpuModels().end()),
                         [](const auto& info) { return std::string(info.param.arch); });

}  // namespace
}  // namespace kiln::testing
