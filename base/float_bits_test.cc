#include "base/float_bits.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "base/dtype_names.h"
#include "gtest/gtest.h"

namespace kiln {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr v1::DType kSmall[] = {v1::FLOAT16,     v1::BFLOAT16,         v1::FLOAT8_E4M3,
                                v1::FLOAT8_E5M2, v1::FLOAT8_E4M3_FNUZ, v1::FLOAT8_E5M2_FNUZ};

TEST(FloatBits, EveryPatternOfTheSmallFormatsComesBack) {
  for (v1::DType dtype : kSmall) {
    for (uint64_t bits = 0; bits < uint64_t{1} << RowOf(dtype).bits; ++bits) {
      const double value = BitsToFloat(dtype, bits);
      if (std::isnan(value)) {
        EXPECT_EQ(FloatToBits(dtype, value), QuietNanBits(dtype));
      } else {
        EXPECT_EQ(FloatToBits(dtype, value), bits) << DTypeName(dtype);
      }
    }
  }
}

// Between two neighbours: below the middle goes down, above goes up, the middle
// to the even one.
TEST(FloatBits, RoundsToNearestEven) {
  for (v1::DType dtype : kSmall) {
    for (uint64_t bits = 0; bits + 1 < uint64_t{1} << (RowOf(dtype).bits - 1); ++bits) {
      const double low = BitsToFloat(dtype, bits);
      const double high = BitsToFloat(dtype, bits + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double middle = (low + high) / 2;
      EXPECT_EQ(FloatToBits(dtype, std::nextafter(middle, 0)), bits);
      EXPECT_EQ(FloatToBits(dtype, std::nextafter(middle, kInf)), bits + 1);
      EXPECT_EQ(FloatToBits(dtype, middle), bits + (bits & 1)) << DTypeName(dtype) << " " << bits;
    }
  }
}

TEST(FloatBits, Float32AsTheHardwareDoes) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200000; ++i) {
    const double value =
        std::bit_cast<double>(i % 2 == 0 ? random() : random() % (uint64_t{1} << 61) + (uint64_t{3} << 60));
    if (std::isnan(value)) continue;
    EXPECT_EQ(FloatToBits(v1::FLOAT32, value), std::bit_cast<uint32_t>(static_cast<float>(value))) << value;
    EXPECT_EQ(FloatToBits(v1::FLOAT64, value), std::bit_cast<uint64_t>(value));
  }
}

TEST(FloatBits, IntegersRoundOnce) {
  std::mt19937_64 random(8);
  for (int i = 0; i < 100000; ++i) {
    const auto value = static_cast<int64_t>(random()) >> (random() % 60);
    EXPECT_EQ(SignedToFloatBits(v1::FLOAT32, value), std::bit_cast<uint32_t>(static_cast<float>(value))) << value;
    EXPECT_EQ(UnsignedToFloatBits(v1::FLOAT64, value),
              std::bit_cast<uint64_t>(static_cast<double>(static_cast<uint64_t>(value))));
  }
  // A double would round this to a tie, and the tie down.
  EXPECT_EQ(SignedToFloatBits(v1::FLOAT32, 9007199791611905), 0x5a000001);
  EXPECT_EQ(FloatToBits(v1::FLOAT32, 9007199791611905.0), 0x5a000000);
  EXPECT_EQ(SignedToFloatBits(v1::FLOAT64, std::numeric_limits<int64_t>::min()), std::bit_cast<uint64_t>(-0x1p63));
}

struct Corner {
  v1::DType dtype;
  double value;
  uint64_t bits;
};

TEST(FloatBits, Corners) {
  const Corner corners[] = {
      {v1::FLOAT16, 65504, 0x7BFF},
      {v1::FLOAT16, 65519.99, 0x7BFF},
      {v1::FLOAT16, 65520, 0x7C00},
      {v1::FLOAT16, -1e300, 0xFC00},
      {v1::FLOAT16, 0x1p-24, 0x0001},
      {v1::FLOAT16, 0x1p-25, 0x0000},
      {v1::FLOAT16, -0x1.8p-25, 0x8001},
      {v1::FLOAT16, -0.0, 0x8000},
      {v1::FLOAT16, kNan, 0x7E00},
      {v1::BFLOAT16, kNan, 0x7FC0},
      {v1::BFLOAT16, 3.4e38, 0x7F80},
      {v1::BFLOAT16, 0x1p-133, 0x0001},
      {v1::FLOAT32, kNan, 0x7FC00000},
      {v1::FLOAT32, -kInf, 0xFF800000},
      {v1::FLOAT64, 5e-324, 1},
      {v1::WEAKFLOAT, kNan, 0x7FF8000000000000},
      {v1::FLOAT8_E4M3, 448, 0x7E},
      {v1::FLOAT8_E4M3, 1e9, 0x7E},
      {v1::FLOAT8_E4M3, -1e9, 0xFE},
      {v1::FLOAT8_E4M3, kInf, 0x7F},
      {v1::FLOAT8_E4M3, kNan, 0x7F},
      {v1::FLOAT8_E5M2, 57344, 0x7B},
      {v1::FLOAT8_E5M2, 1e9, 0x7B},
      {v1::FLOAT8_E5M2, -kInf, 0xFC},
      {v1::FLOAT8_E5M2, kNan, 0x7E},
      {v1::FLOAT8_E4M3_FNUZ, 240, 0x7F},
      {v1::FLOAT8_E4M3_FNUZ, -1e9, 0xFF},
      {v1::FLOAT8_E4M3_FNUZ, -0.0, 0},
      {v1::FLOAT8_E4M3_FNUZ, -1e-30, 0},
      {v1::FLOAT8_E4M3_FNUZ, kInf, 0x80},
      {v1::FLOAT8_E5M2_FNUZ, 57344, 0x7F},
      {v1::FLOAT8_E5M2_FNUZ, kNan, 0x80},
  };
  for (const Corner& corner : corners) {
    EXPECT_EQ(FloatToBits(corner.dtype, corner.value), corner.bits) << DTypeName(corner.dtype) << " " << corner.value;
  }
  EXPECT_EQ(BitsToFloat(v1::FLOAT8_E5M2, 0x7C), kInf);
  EXPECT_TRUE(std::isnan(BitsToFloat(v1::FLOAT8_E4M3, 0xFF)));
  EXPECT_TRUE(std::isnan(BitsToFloat(v1::FLOAT8_E5M2_FNUZ, 0x80)));
  EXPECT_EQ(BitsToFloat(v1::FLOAT16, FloatToBits(v1::FLOAT16, 0.333)), 0.3330078125);
  EXPECT_EQ(BitsToFloat(v1::BFLOAT16, FloatToBits(v1::BFLOAT16, 0.333)), 0.33203125);
}

}  // namespace
}  // namespace kiln
