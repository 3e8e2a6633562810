// Products of matrices of 8-bit integers, summed up in 32 bits, and of bfloat16 under fast_math:
// as machine code beside the interpreter, bit for bit; of integers for the greatest and the least
// values too, of floats for such as are exact. Where the machine has dot products they are used, or a matrix unit;
// and one engine has such a unit, made of loops, whatever the machine has.
#include "compiler/kernel/dots.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "client/cpp/ops.h"
#include "compiler/compile.h"
#include "runtime/hal/device.h"
#include "tests/support/arguments.h"
#include "tests/support/cpu_targets.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"

namespace kiln::testing {
namespace {

using client::Shape;
using client::Tensor;

enum class Values { kAny, kLeast, kGreatest, kExtreme };

compiler::HostTensor Bytes(v1::DType dtype, const Shape& shape, Values values, uint32_t seed) {
  compiler::HostTensor tensor;
  tensor.dtype = compiler::FromWire(dtype);
  tensor.shape.assign(shape.begin(), shape.end());
  const uint8_t least = dtype == v1::INT8 ? 0x80 : 0, greatest = dtype == v1::INT8 ? 0x7F : 0xFF;
  for (int64_t i = 0; i < compiler::NumElements(tensor.shape); ++i) {
    seed = seed * 1664525 + 1013904223;
    uint8_t byte = static_cast<uint8_t>(seed >> 24);
    if (values == Values::kLeast || (values == Values::kExtreme && byte % 2 == 0)) byte = least;
    if (values == Values::kGreatest || (values == Values::kExtreme && byte != least)) byte = greatest;
    tensor.bytes.push_back(static_cast<char>(byte));
  }
  return tensor;
}

struct Case {
  v1::DType a, b;
  v1::DType wide = v1::INT32;  // in which the factors are multiplied
};

class Dots : public ::testing::Test {
 protected:
  static Tensor Product(Tensor a, Tensor b, const Case& of, bool transpose) {
    if (transpose) b = client::Transpose(b);
    a = client::Cast(a, of.wide);
    b = client::Cast(b, of.wide);
    const auto rank = static_cast<int64_t>(a.shape().size());
    a = client::Unsqueeze(a, rank);
    b = client::Unsqueeze(b, rank - 2);
    return client::Sum(client::Cast(a * b, v1::INT32), {rank - 1});
  }

  // Which CPUs' schedules have lanes along the reduction, of those that CpuModels() has.
  static std::set<std::string> Unrolled(const v1::Graph& wire, const compiler::Options& options = {}) {
    std::set<std::string> archs;
    for (const CpuModel& cpu : CpuModels()) {
      const auto made = compiler::Compile(wire, TargetOf(cpu), options);
      EXPECT_TRUE(made.ok()) << made.status();
      if (made.ok() && absl::StrContains(made->kernels(0).schedule(), "UNROLL")) archs.insert(cpu.arch);
    }
    return archs;
  }

  // Values, on this machine; the graph that was run.
  v1::Graph Check(const Case& of, const Shape& a, const Shape& b, Values values, bool transpose = false) {
    client::Graph graph;
    Tensor x = graph.Param(0, of.a, a), y = graph.Param(1, of.b, b);
    graph.Output(Product(x, y, of, transpose));
    const v1::Graph wire = graph.Build().value();
    const compiler::HostTensors arguments = {{0, Bytes(of.a, a, values, 1)}, {1, Bytes(of.b, b, values, 2)}};
    const auto want = RunInterpreted(wire, arguments);
    EXPECT_TRUE(want.ok()) << want.status();
    for (CpuEngine* engine : {&one_, &several_, &tiles_}) {
      const auto got = engine->Run(wire, arguments, {});
      EXPECT_TRUE(got.ok()) << got.status();
      if (!got.ok() || !want.ok()) return wire;
      EXPECT_EQ(got->results[0].bytes, want->results[0].bytes);
    }
    return wire;
  }

  Dots() { tiles_.set_target(WithTileLoops(tiles_.device().target())); }

  CpuEngine one_{1}, several_{3}, tiles_{2};
};

constexpr Case kCases[] = {{v1::UINT8, v1::INT8},
                           {v1::INT8, v1::UINT8},
                           {v1::INT8, v1::INT8},
                           {v1::UINT8, v1::UINT8},
                           {v1::UINT8, v1::INT8, v1::INT16},
                           {v1::INT8, v1::INT8, v1::INT16}};

TEST_F(Dots, AreExactForAllValues) {
  for (const Case& of : kCases) {
    for (const Values values : {Values::kAny, Values::kLeast, Values::kGreatest, Values::kExtreme}) {
      SCOPED_TRACE(absl::StrCat(v1::DType_Name(of.a), " by ", v1::DType_Name(of.b), " in ", v1::DType_Name(of.wide),
                                ", values ", static_cast<int>(values)));
      const v1::Graph wire = Check(of, {40, 64}, {64, 96}, values);
      if (values == Values::kAny) {
        EXPECT_EQ(Unrolled(wire), (std::set<std::string>{"cascadelake", "sapphirerapids"}));
      }
    }
  }
}

// -128 * 255 * 70000 leaves 32 bits.
TEST_F(Dots, WrapAsIntegersDo) {
  for (const Case& of : kCases) {
    if (of.wide != v1::INT16) Check(of, {2, 140000}, {140000, 16}, Values::kLeast);
  }
}

TEST_F(Dots, OfOddSizesInEveryForm) {
  for (const auto& [m, n, k] : {std::tuple{50, 61, 36},
                                {33, 100, 64},
                                {7, 130, 48},
                                {97, 31, 19},
                                {16, 16, 300},
                                {1, 64, 64},
                                {64, 1, 64},
                                {3, 17, 4},
                                {100, 200, 128}}) {
    for (const bool transpose : {false, true}) {
      for (const Case& of : kCases) {
        SCOPED_TRACE(absl::StrCat(m, " x ", n, " over ", k, transpose ? ", b^T" : ""));
        Check(of, {m, k}, transpose ? Shape{n, k} : Shape{k, n}, Values::kExtreme, transpose);
        if (HasFailure()) return;
      }
    }
  }
}

// int8 times int8 in int8 wraps: such a sum is no dot product.
TEST_F(Dots, NoneWhereProductsWrap) {
  for (const Case& of : {Case{v1::INT8, v1::INT8, v1::INT8}, {v1::UINT8, v1::UINT8, v1::INT16}}) {
    EXPECT_TRUE(Unrolled(Check(of, {40, 64}, {64, 96}, Values::kAny)).empty());
  }
}

// Random bfloat16 that are small integers, whose sums are exact in any order.
TEST_F(Dots, OfBfloatsUnderFastMath) {
  for (const auto& [m, n, k, transpose] : {std::tuple{40, 96, 64, false},
                                           {33, 100, 62, false},
                                           {7, 50, 34, true},
                                           {40, 64, 128, true},
                                           {64, 30, 17, false},
                                           {1, 64, 64, false},
                                           {64, 1, 64, false}}) {
    SCOPED_TRACE(absl::StrCat(m, " x ", n, " over ", k, transpose ? ", b^T" : ""));
    client::Graph graph;
    const Tensor a = graph.Param(0, v1::BFLOAT16, {m, k});
    const Tensor b = graph.Param(1, v1::BFLOAT16, transpose ? Shape{n, k} : Shape{k, n});
    graph.Output(
        client::Matmul(client::Cast(a, v1::FLOAT32), client::Cast(transpose ? client::Transpose(b) : b, v1::FLOAT32)));
    const v1::Graph wire = graph.Build().value();
    const compiler::HostTensors arguments = RandomArguments(wire, 1).value();
    const auto want = RunInterpreted(wire, arguments);
    ASSERT_TRUE(want.ok()) << want.status();
    for (const bool fast_math : {false, true}) {
      compiler::Options options;
      options.fast_math = fast_math;
      for (CpuEngine* engine : {&one_, &several_, &tiles_}) {
        const auto got = engine->Run(wire, arguments, options);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_EQ(got->results[0].bytes, want->results[0].bytes);
      }
      if (m == 40 && n == 96) {
        EXPECT_EQ(Unrolled(wire, options),
                  fast_math ? std::set<std::string>{"sapphirerapids"} : std::set<std::string>());
      }
    }
  }
}

// A subnormal number counts, but where fast_math lets it go.
TEST_F(Dots, OfBfloatsAreOtherwiseExact) {
  constexpr int64_t kSize = 64;
  client::Graph graph;
  const Tensor a = graph.Param(0, v1::BFLOAT16, {kSize, kSize}), b = graph.Param(1, v1::BFLOAT16, {kSize, kSize});
  graph.Output(client::Matmul(client::Cast(a, v1::FLOAT32), client::Cast(b, v1::FLOAT32)));
  const v1::Graph wire = graph.Build().value();
  compiler::HostTensors arguments = RandomArguments(wire, 1).value();
  for (auto& [slot, tensor] : arguments) {
    const uint16_t bits = slot == 0 ? 0x0001 : 0x7E80;  // 2^-133 and 2^126
    for (size_t i = 0; i < tensor.bytes.size(); i += 2) std::memcpy(tensor.bytes.data() + i, &bits, 2);
  }
  const auto got = one_.Run(wire, arguments, {});
  ASSERT_TRUE(got.ok()) << got.status();
  for (int64_t i = 0; i < kSize * kSize; ++i) {
    float value;
    std::memcpy(&value, got->results[0].bytes.data() + 4 * i, 4);
    ASSERT_EQ(value, 0.5F);
  }
}

}  // namespace
}  // namespace kiln::testing
