#include "runtime/collective/algorithms/arithmetic.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/float_bits.h"
#include "runtime/collective/algorithms/narrow_floats.h"

namespace kiln::runtime::collective {
namespace {

template <typename T>
std::vector<T> Reduced(v1::DType dtype, ReduceOp op, const std::vector<std::vector<T>>& inputs) {
  const Arithmetic& arithmetic = *ArithmeticOf(dtype, op);
  std::vector<const void*> in;
  for (const auto& input : inputs) in.push_back(input.data());
  std::vector<T> out(inputs[0].size());
  void* outputs[] = {out.data()};
  arithmetic.reduce(in.data(), static_cast<uint32_t>(in.size()), outputs, 1, out.size());
  return out;
}

// Every float32 whose lower bits are one of a few patterns, so that all ways of
// rounding are met.
template <typename Format>
void NarrowsAsFloatBits(v1::DType dtype) {
  for (uint32_t high = 0; high < 65536; ++high) {
    for (const uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const float value = std::bit_cast<float>(high << 16 | low);
      ASSERT_EQ(Format::Narrow(value), FloatToBits(dtype, value)) << std::hex << (high << 16 | low);
    }
  }
}
template <typename Format>
void WidensAsFloatBits(v1::DType dtype) {
  for (uint32_t bits = 0; bits <= std::numeric_limits<typename Format::Bits>::max(); ++bits) {
    const float wide = Format::Widen(static_cast<typename Format::Bits>(bits));
    const auto want = static_cast<float>(BitsToFloat(dtype, bits));
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint32_t>(wide), std::bit_cast<uint32_t>(want)) << bits;
    }
  }
}

TEST(NarrowFloats, AreThoseOfFloatBits) {
  NarrowsAsFloatBits<Half>(v1::FLOAT16);
  NarrowsAsFloatBits<Brain>(v1::BFLOAT16);
  NarrowsAsFloatBits<Eight<v1::FLOAT8_E4M3>>(v1::FLOAT8_E4M3);
  NarrowsAsFloatBits<Eight<v1::FLOAT8_E5M2>>(v1::FLOAT8_E5M2);
  NarrowsAsFloatBits<Eight<v1::FLOAT8_E4M3_FNUZ>>(v1::FLOAT8_E4M3_FNUZ);
  NarrowsAsFloatBits<Eight<v1::FLOAT8_E5M2_FNUZ>>(v1::FLOAT8_E5M2_FNUZ);
  WidensAsFloatBits<Half>(v1::FLOAT16);
  WidensAsFloatBits<Brain>(v1::BFLOAT16);
  WidensAsFloatBits<Eight<v1::FLOAT8_E4M3>>(v1::FLOAT8_E4M3);
  WidensAsFloatBits<Eight<v1::FLOAT8_E5M2_FNUZ>>(v1::FLOAT8_E5M2_FNUZ);
}

// One element, as plainly as it can be said.
template <typename Format>
typename Format::Bits Dull(ReduceOp op, const std::vector<typename Format::Bits>& items) {
  float acc = Format::Widen(items[0]);
  for (size_t k = 1; k < items.size(); ++k) {
    const float next = Format::Widen(items[k]);
    switch (op) {
      case ReduceOp::kSum: acc = acc + next; break;
      case ReduceOp::kProd: acc = acc * next; break;
      case ReduceOp::kMax: acc = std::isnan(acc) || acc > next ? acc : next; break;
    }
  }
  return Format::Narrow(acc);
}

// Tensors in which every pattern meets partners that differ from place to place. (Of 8
// bits and two tensors: every pair.)
template <typename Format>
void ReducesAsScalars(v1::DType dtype) {
  using Bits = typename Format::Bits;
  constexpr uint32_t kPatterns = 1u << (8 * sizeof(Bits));
  for (const uint32_t inputs : {1u, 2u, 3u, 4u, 5u, 9u}) {
    std::vector<std::vector<Bits>> tensors(inputs, std::vector<Bits>(65536 + 13));  // no whole number of vectors
    for (uint32_t k = 0; k < inputs; ++k) {
      for (uint32_t i = 0; i < tensors[k].size(); ++i) {
        const uint32_t other = (i / kPatterns + i * 2654435761u * k) >> (k == 1 ? 0 : 7);
        tensors[k][i] = static_cast<Bits>(k == 0 ? i : sizeof(Bits) == 1 && k == 1 ? i >> 8 : other);
      }
    }
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax}) {
      const std::vector<Bits> actual = Reduced(dtype, op, tensors);
      std::vector<Bits> items(inputs);
      for (uint32_t i = 0; i < actual.size(); ++i) {
        for (uint32_t k = 0; k < inputs; ++k) items[k] = tensors[k][i];
        ASSERT_EQ(actual[i], Dull<Format>(op, items))
            << v1::DType_Name(dtype) << " op " << static_cast<int>(op) << " of " << inputs << " at " << i;
      }
    }
  }
}

TEST(Arithmetic, OfNarrowFloatsIsThatOfScalarsBitForBit) {
  ReducesAsScalars<Half>(v1::FLOAT16);
  ReducesAsScalars<Brain>(v1::BFLOAT16);
  ReducesAsScalars<Eight<v1::FLOAT8_E4M3>>(v1::FLOAT8_E4M3);
  ReducesAsScalars<Eight<v1::FLOAT8_E5M2>>(v1::FLOAT8_E5M2);
  ReducesAsScalars<Eight<v1::FLOAT8_E4M3_FNUZ>>(v1::FLOAT8_E4M3_FNUZ);
  ReducesAsScalars<Eight<v1::FLOAT8_E5M2_FNUZ>>(v1::FLOAT8_E5M2_FNUZ);
}

TEST(Arithmetic, OfNarrowFloatsTouchesWhatItIsGivenAlone) {
  for (uint64_t elements = 0; elements < 80; ++elements) {
    std::vector<uint8_t> a(100, 0x38), b(100, 0x38), c(100, 7), d(100, 9);  // 1 + 1 in e4m3
    const void* inputs[] = {a.data(), b.data()};
    void* outputs[] = {c.data(), b.data(), d.data()};  // one is an input
    ArithmeticOf(v1::FLOAT8_E4M3, ReduceOp::kSum)->reduce(inputs, 2, outputs, 3, elements);
    for (uint64_t i = 0; i < 100; ++i) {
      ASSERT_EQ(c[i], i < elements ? 0x40 : 7);
      ASSERT_EQ(b[i], i < elements ? 0x40 : 0x38);
      ASSERT_EQ(d[i], i < elements ? 0x40 : 9);
    }
  }
}

TEST(Arithmetic, IntegersWrap) {
  EXPECT_EQ(Reduced<int8_t>(v1::INT8, ReduceOp::kSum, {{100, -100}, {100, -100}}), (std::vector<int8_t>{-56, 56}));
  EXPECT_EQ(Reduced<uint16_t>(v1::UINT16, ReduceOp::kProd, {{65535}, {65535}}), std::vector<uint16_t>{1});
  EXPECT_EQ(Reduced<int64_t>(v1::INT64, ReduceOp::kSum, {{INT64_MAX}, {1}}), std::vector<int64_t>{INT64_MIN});
  EXPECT_EQ(Reduced<int32_t>(v1::INT32, ReduceOp::kProd, {{INT32_MIN}, {-1}}), std::vector<int32_t>{INT32_MIN});
  EXPECT_EQ(Reduced<int8_t>(v1::INT8, ReduceOp::kMax, {{-3}, {2}, {-1}}), std::vector<int8_t>{2});
  EXPECT_EQ(Reduced<uint8_t>(v1::UINT8, ReduceOp::kMax, {{3}, {200}}), std::vector<uint8_t>{200});
}

TEST(Arithmetic, BooleansOrAndAnd) {
  const std::vector<std::vector<uint8_t>> inputs = {{0, 0, 1, 7}, {0, 2, 0, 4}};
  EXPECT_EQ(Reduced(v1::BOOL, ReduceOp::kSum, inputs), (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(Reduced(v1::BOOL, ReduceOp::kMax, inputs), (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(Reduced(v1::BOOL, ReduceOp::kProd, inputs), (std::vector<uint8_t>{0, 0, 0, 1}));
}

TEST(Arithmetic, MaxKeepsNaN) {
  const float nan = std::nanf("");
  for (const auto& inputs : std::vector<std::vector<std::vector<float>>>{
           {{nan}, {1}, {2}}, {{1}, {nan}, {2}}, {{1}, {2}, {nan}}, {{1}, {nan}}, {{nan}, {1}}}) {
    EXPECT_TRUE(std::isnan(Reduced(v1::FLOAT32, ReduceOp::kMax, inputs)[0]));
  }
  EXPECT_EQ(Reduced<float>(v1::FLOAT32, ReduceOp::kMax, {{-1}, {-INFINITY}}), std::vector<float>{-1});
}

TEST(Arithmetic, NarrowFloatsAreRoundedOnce) {
  // 2048 + 1 + 1 in float16: rounding after each step would lose both ones.
  EXPECT_EQ(Reduced<uint16_t>(v1::FLOAT16, ReduceOp::kSum, {{0x6800}, {0x3c00}, {0x3c00}}),
            std::vector<uint16_t>{0x6801});
}

TEST(Arithmetic, OutputsMayBeInputs) {
  std::vector<float> a(5000), b(5000);
  for (int i = 0; i < 5000; ++i) a[i] = static_cast<float>(i), b[i] = static_cast<float>(2 * i);
  const void* inputs[] = {a.data(), b.data()};
  void* outputs[] = {b.data(), a.data()};
  ArithmeticOf(v1::FLOAT32, ReduceOp::kSum)->reduce(inputs, 2, outputs, 2, 5000);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(a[i], static_cast<float>(3 * i));
    ASSERT_EQ(b[i], a[i]);
  }
}

}  // namespace
}  // namespace kiln::runtime::collective
