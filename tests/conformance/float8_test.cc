// The 8-bit floats in full: every pair of patterns, and every place where a cast
// to them rounds. The interpreter against reference/float8.txt and
// base/float_bits.h, compiled programs against the interpreter, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "base/dtype_names.h"
#include "base/float_bits.h"
#include "base/op_names.h"
#include "tests/conformance/cases.h"
#include "tests/support/engines/cpu_engine.h"
#include "tests/support/engines/interp_engine.h"
#include "tests/support/wire_builder.h"

namespace kiln::testing {
namespace {

using compiler::DType;
using compiler::HostTensor;
using compiler::HostTensors;

constexpr DType kFloat8[] = {DType::kFloat8E4m3, DType::kFloat8E5m2, DType::kFloat8E4m3Fnuz, DType::kFloat8E5m2Fnuz};
constexpr v1::Op kOps[] = {v1::ADD, v1::MUL, v1::MAX, v1::CMPLT};

HostTensor TensorOf(DType dtype, std::string bytes) {
  HostTensor tensor{dtype, {}, std::move(bytes)};
  tensor.shape = {static_cast<int64_t>(tensor.bytes.size()) / compiler::ItemSize(dtype)};
  return tensor;
}

// MAX may give either zero.
std::string WithoutNegativeZero(std::string bytes) {
  for (char& byte : bytes) {
    if (byte == '\x80') byte = 0;
  }
  return bytes;
}

TEST(Float8, EveryPair) {
  std::ifstream file("tests/conformance/reference/float8.txt");
  std::map<std::pair<v1::Op, DType>, uint64_t> digests;
  std::string kind, op, dtype, digest;
  while (file >> kind >> op >> dtype >> digest)
    digests[{*ParseOp(op), compiler::FromWire(*ParseDType(dtype))}] = std::stoull(digest, nullptr, 16);
  ASSERT_EQ(digests.size(), 16u);

  CpuEngine cpu;
  std::string a, b;
  for (int i = 0; i < 65536; ++i) {
    a.push_back(static_cast<char>(i >> 8));
    b.push_back(static_cast<char>(i));
  }
  for (const DType dtype : kFloat8) {
    const bool fnuz = dtype == DType::kFloat8E4m3Fnuz || dtype == DType::kFloat8E5m2Fnuz;
    WireBuilder builder;
    const Node x = builder.Param(0, dtype, {65536}), y = builder.Param(1, dtype, {65536});
    std::vector<Node> results;
    for (v1::Op op : kOps) results.push_back(builder.Add(op, {x, y}));
    builder.Add(v1::TUPLE, results);
    const HostTensors arguments = {{0, TensorOf(dtype, a)}, {1, TensorOf(dtype, b)}};
    const auto want = RunInterpreted(builder.graph(), arguments);
    ASSERT_TRUE(want.ok()) << want.status();
    const auto got = cpu.Run(builder.graph(), arguments, {});
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t i = 0; i < std::size(kOps); ++i) {
      std::string expected = want->results[i].bytes, computed = got->results[i].bytes;
      if (kOps[i] == v1::MAX && !fnuz) {
        expected = WithoutNegativeZero(expected);
        computed = WithoutNegativeZero(computed);
      }
      EXPECT_EQ(Digest(expected), (digests.at({kOps[i], dtype}))) << compiler::Name(dtype) << " " << OpName(kOps[i]);
      EXPECT_EQ(computed, expected) << compiler::Name(dtype) << " " << OpName(kOps[i]);
    }
  }
}

// Between neighbours: the middle, just below and just above; all around the
// greatest value; and patterns at random.
template <typename T>
std::vector<T> Corners(v1::DType dtype) {
  constexpr T kInf = std::numeric_limits<T>::infinity();
  std::vector<T> values = {0,
                           kInf,
                           std::numeric_limits<T>::quiet_NaN(),
                           std::numeric_limits<T>::denorm_min(),
                           std::numeric_limits<T>::min(),
                           std::numeric_limits<T>::max(),
                           500,
                           57345,
                           61440,
                           65536};
  for (uint64_t bits = 0; bits < 0x7F; ++bits) {
    const T low = static_cast<T>(BitsToFloat(dtype, bits)), high = static_cast<T>(BitsToFloat(dtype, bits + 1));
    for (T value : {low, (low + high) / 2, high}) {
      values.insert(values.end(), {value, std::nextafter(value, T{0}), std::nextafter(value, kInf)});
    }
  }
  uint64_t random = 1;
  for (int i = 0; i < 20000; ++i) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    values.push_back(std::ldexp(static_cast<T>(random >> 8), -56 - 30 + static_cast<int>(random >> 3 & 63)));
  }
  const size_t positive = values.size();
  for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
  return values;
}

template <typename T>
void CheckCasts(CpuEngine& cpu, DType from) {
  for (const DType dtype : kFloat8) {
    const std::vector<T> values = Corners<T>(compiler::ToWire(dtype));
    WireBuilder builder;
    builder.Add(v1::TUPLE, {builder.Cast(builder.Param(0, from, {static_cast<int64_t>(values.size())}), dtype)});
    const std::string bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    const HostTensors arguments = {{0, TensorOf(from, bytes)}};
    for (const auto& got : {RunInterpreted(builder.graph(), arguments), cpu.Run(builder.graph(), arguments, {})}) {
      ASSERT_TRUE(got.ok()) << got.status();
      for (size_t i = 0; i < values.size(); ++i) {
        ASSERT_EQ(static_cast<uint8_t>(got->results[0].bytes[i]), FloatToBits(compiler::ToWire(dtype), values[i]))
            << compiler::Name(dtype) << " of " << values[i];
      }
    }
  }
}

TEST(Float8, CastsRoundOnce) {
  CpuEngine cpu;
  CheckCasts<float>(cpu, DType::kFloat32);
  CheckCasts<double>(cpu, DType::kFloat64);
}

// Sums and products are accumulated in float32: 300 twos are 600, which no e4m3
// holds, but with 300 minus ones it is back in range.
TEST(Float8, ReductionsAccumulateInFloat32) {
  CpuEngine cpu;
  std::string bytes;
  const DType dtype = DType::kFloat8E4m3;
  for (double value : {2.0, -1.0}) bytes.append(300, static_cast<char>(FloatToBits(compiler::ToWire(dtype), value)));
  for (v1::Op reduce_op : {v1::ADD, v1::MAX}) {
    WireBuilder builder;
    builder.Add(v1::TUPLE, {builder.Reduce(builder.Param(0, dtype, {600}), reduce_op, {0})});
    const HostTensors arguments = {{0, TensorOf(dtype, bytes)}};
    for (const auto& got : {RunInterpreted(builder.graph(), arguments), cpu.Run(builder.graph(), arguments, {})}) {
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(BitsToFloat(compiler::ToWire(dtype), static_cast<uint8_t>(got->results[0].bytes[0])),
                reduce_op == v1::ADD ? 288 : 2);  // 300 rounds to 288
    }
  }
}

// A maximum over nothing is the least value; a format without infinity has -448.
TEST(Float8, TheMaximumOfNothing) {
  CpuEngine cpu;
  for (const DType dtype : kFloat8) {
    WireBuilder builder;
    builder.Add(v1::TUPLE, {builder.Reduce(builder.Param(0, dtype, {0}), v1::MAX, {0})});
    const HostTensors arguments = {{0, TensorOf(dtype, "")}};
    const double least = dtype == DType::kFloat8E4m3       ? -448
                         : dtype == DType::kFloat8E5m2     ? -std::numeric_limits<double>::infinity()
                         : dtype == DType::kFloat8E4m3Fnuz ? -240
                                                           : -57344;
    for (const auto& got : {RunInterpreted(builder.graph(), arguments), cpu.Run(builder.graph(), arguments, {})}) {
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(BitsToFloat(compiler::ToWire(dtype), static_cast<uint8_t>(got->results[0].bytes[0])), least);
    }
  }
}

}  // namespace
}  // namespace kiln::testing
