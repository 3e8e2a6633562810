// EXP2, LOG2 and SIN beside lanes that are out of the ordinary: what a value gives is
// its own affair, wherever it stands. How close the values come all over the range is
// for tests/bench/accuracy_bench.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/wire_builder.h"

namespace kiln::testing {
namespace {

using compiler::DType;

std::vector<float> ValuesOf(CpuEngine& engine, const v1::Target& target, v1::Op op, const std::vector<float>& x) {
  const auto size = static_cast<int64_t>(x.size());
  WireBuilder builder;
  builder.Add(v1::TUPLE, {builder.Add(op, {builder.Param(0, DType::kFloat32, {size})})});
  compiler::HostTensor argument{DType::kFloat32, {size}, std::string(4 * x.size(), '\0')};
  std::memcpy(argument.bytes.data(), x.data(), argument.bytes.size());
  std::vector<float> values(x.size());
  const auto program = engine.Load(compiler::Compile(builder.graph(), target, {}).value());
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return values;
  const auto got = engine.RunLoaded(*program, {{0, argument}});
  EXPECT_TRUE(got.ok()) << got.status();
  if (got.ok()) std::memcpy(values.data(), got->results[0].bytes.data(), argument.bytes.size());
  return values;
}

uint32_t BitsOf(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return std::isnan(x) ? 0x7FC00000 : bits;
}

constexpr float kInf = std::numeric_limits<float>::infinity();

class VectorMath : public ::testing::TestWithParam<CpuModel> {};

// Vectors of each CPU's width, with the instructions that this machine has: a machine with wide ones
// may be told to use narrow ones.
TEST_P(VectorMath, LanesDoNotConcernEachOther) {
  const std::vector<float> rare = {1e5f, -3e38f, kInf, -kInf, std::nanf(""), -0.0f, 0.0f, 1e-45f, -1.5f};
  CpuEngine engine(1);
  const v1::Target target = TunedFor(GetParam(), engine.device().target());
  for (const v1::Op op : {v1::EXP2, v1::LOG2, v1::SIN}) {
    // Vectors, several of them at once, and what is left over.
    for (const int size : {1, 5, 16, 64, 67, 1024}) {
      std::vector<float> plain, mixed;
      for (int i = 0; i < size; ++i) {
        plain.push_back(0.37f * static_cast<float>(i + 1));
        mixed.push_back(i % 5 == 3 ? rare[static_cast<size_t>(i / 5) % rare.size()] : plain.back());
      }
      const std::vector<float> alone = ValuesOf(engine, target, op, plain), among = ValuesOf(engine, target, op, mixed);
      for (size_t i = 0; i < plain.size(); ++i) {
        double want = op == v1::SIN    ? std::sin(static_cast<double>(mixed[i]))
                      : op == v1::EXP2 ? std::exp2(static_cast<double>(mixed[i]))
                                       : std::log2(static_cast<double>(mixed[i]));
        if (i % 5 != 3) {
          EXPECT_EQ(BitsOf(among[i]), BitsOf(alone[i])) << op << " of " << mixed[i] << " in lane " << i;
        }
        if (std::isnan(want) || std::isinf(static_cast<float>(want)) || want == 0) {
          EXPECT_EQ(BitsOf(among[i]), BitsOf(static_cast<float>(want))) << op << " of " << mixed[i] << " in lane " << i;
        } else {
          EXPECT_NEAR(among[i], want, std::fabs(want) * 0x1p-22 + 0x1p-149) << op << " of " << mixed[i];
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpus, VectorMath, ::testing::ValuesIn(CpuModels().begin(), CpuModels().end()),
                         [](const auto& info) { return std::string(info.param.arch); });

}  // namespace
}  // namespace kiln::testing
