#include "runtime/exec/fold.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/float_bits.h"

namespace kiln::runtime {
namespace {

template <typename T>
std::vector<T> Folded(v1::DType dtype, v1::Op op, std::vector<T> to, const std::vector<T>& from) {
  Fold(dtype, op, from.data(), to.data(), to.size());
  return to;
}

TEST(Fold, IntegersWrap) {
  using Bytes = std::vector<int8_t>;
  EXPECT_EQ(Folded<int8_t>(v1::INT8, v1::ADD, {100, -100, 3}, {100, -100, 4}), (Bytes{-56, 56, 7}));
  EXPECT_EQ(Folded<int8_t>(v1::INT8, v1::MUL, {100, -7}, {3, 5}), (Bytes{44, -35}));
  EXPECT_EQ(Folded<int8_t>(v1::INT8, v1::MAX, {-1, 5}, {1, -5}), (Bytes{1, 5}));
  EXPECT_EQ(Folded<uint16_t>(v1::UINT16, v1::MUL, {65535}, {65535}), (std::vector<uint16_t>{1}));
  const int64_t least = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(Folded<int64_t>(v1::INT64, v1::ADD, {least}, {-1}),
            (std::vector<int64_t>{std::numeric_limits<int64_t>::max()}));
}

TEST(Fold, BoolsAreOrAndAnd) {
  using Bools = std::vector<uint8_t>;
  EXPECT_EQ(Folded<uint8_t>(v1::BOOL, v1::ADD, {0, 0, 1, 1}, {0, 1, 0, 1}), (Bools{0, 1, 1, 1}));
  EXPECT_EQ(Folded<uint8_t>(v1::BOOL, v1::MUL, {0, 0, 1, 1}, {0, 1, 0, 1}), (Bools{0, 0, 0, 1}));
  EXPECT_EQ(Folded<uint8_t>(v1::BOOL, v1::MAX, {0, 0, 1, 1}, {0, 1, 0, 1}), (Bools{0, 1, 1, 1}));
}

TEST(Fold, TheGreaterOfANaNIsNaN) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto greatest = Folded<float>(v1::FLOAT32, v1::MAX, {nan, 1, 2}, {1, nan, 3});
  EXPECT_TRUE(std::isnan(greatest[0]) && std::isnan(greatest[1]));
  EXPECT_EQ(greatest[2], 3.0f);
}

TEST(Fold, ShortFloatsAreRoundedOnce) {
  for (const v1::DType dtype : {v1::FLOAT16, v1::BFLOAT16}) {
    const auto bits = [dtype](double value) { return static_cast<uint16_t>(FloatToBits(dtype, value)); };
    EXPECT_EQ(Folded<uint16_t>(dtype, v1::ADD, {bits(1), bits(-2)}, {bits(0.5), bits(4)}),
              (std::vector<uint16_t>{bits(1.5), bits(2)}));
    EXPECT_EQ(Folded<uint16_t>(dtype, v1::MUL, {bits(3)}, {bits(0.1)})[0], bits(3 * BitsToFloat(dtype, bits(0.1))));
  }
}

TEST(Fold, OtherOpsAndDtypesAreNone) {
  EXPECT_FALSE(CanFold(v1::FLOAT32, v1::SUB));
  EXPECT_FALSE(CanFold(v1::WEAKINT, v1::ADD));
  EXPECT_FALSE(CanFold(v1::VOID, v1::ADD));
  EXPECT_TRUE(CanFold(v1::FLOAT16, v1::MAX));
}

}  // namespace
}  // namespace kiln::runtime
