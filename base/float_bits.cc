#include "base/float_bits.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace kiln {
namespace {

// A binary float format: sign, `exponent` bits, `mantissa` bits.
struct Format {
  int exponent;
  int mantissa;
  int bias;
  uint64_t max_finite;  // pattern of the greatest finite value
  uint64_t infinity;    // 0: the format has none
  uint64_t nan;         // the positive quiet one
  bool saturates;       // a finite value past max_finite becomes max_finite
  bool fnuz;            // no -0; its pattern is the one NaN
};

constexpr Format kHalf = {5, 10, 15, 0x7BFF, 0x7C00, 0x7E00, false, false};
constexpr Format kBfloat = {8, 7, 127, 0x7F7F, 0x7F80, 0x7FC0, false, false};
constexpr Format kSingle = {8, 23, 127, 0x7F7F'FFFF, 0x7F80'0000, 0x7FC0'0000, false, false};
constexpr Format kDouble = {11,    52,   1023, 0x7FEF'FFFF'FFFF'FFFF, 0x7FF0'0000'0000'0000, 0x7FF8'0000'0000'0000,
                            false, false};
constexpr Format kE4m3 = {4, 3, 7, 0x7E, 0, 0x7F, true, false};
constexpr Format kE5m2 = {5, 2, 15, 0x7B, 0x7C, 0x7E, true, false};
constexpr Format kE4m3Fnuz = {4, 3, 8, 0x7F, 0, 0x80, true, true};
constexpr Format kE5m2Fnuz = {5, 2, 16, 0x7F, 0, 0x80, true, true};

const Format* FormatOf(v1::DType dtype) {
  switch (dtype) {
    case v1::FLOAT16: return &kHalf;
    case v1::BFLOAT16: return &kBfloat;
    case v1::FLOAT32: return &kSingle;
    case v1::FLOAT64:
    case v1::WEAKFLOAT: return &kDouble;
    case v1::FLOAT8_E4M3: return &kE4m3;
    case v1::FLOAT8_E5M2: return &kE5m2;
    case v1::FLOAT8_E4M3_FNUZ: return &kE4m3Fnuz;
    case v1::FLOAT8_E5M2_FNUZ: return &kE5m2Fnuz;
    default: return nullptr;
  }
}

const Format& CheckedFormatOf(v1::DType dtype) {
  const Format* format = FormatOf(dtype);
  KILN_CHECK(format != nullptr);
  return *format;
}

uint64_t WithSign(const Format& f, uint64_t pattern, bool negative) {
  if (!negative || (f.fnuz && pattern == 0)) return pattern;
  return pattern | uint64_t{1} << (f.exponent + f.mantissa);
}

// Drops `shift` low bits, to nearest even.
uint64_t RoundedShift(uint64_t value, int shift) {
  if (shift > 64) return 0;
  const uint64_t kept = shift == 64 ? 0 : value >> shift;
  const uint64_t half = uint64_t{1} << (shift - 1);
  const uint64_t rest = shift == 64 ? value : value & ((half << 1) - 1);
  return kept + (rest > half || (rest == half && (kept & 1) != 0) ? 1 : 0);
}

// The pattern nearest to ±magnitude * 2^exponent.
uint64_t Encode(const Format& f, bool negative, uint64_t magnitude, int exponent) {
  if (magnitude == 0) return WithSign(f, 0, negative);
  const int leading = static_cast<int>(std::bit_width(magnitude)) - 1 + exponent;
  const int least_normal = 1 - f.bias;
  const int scale = leading > least_normal ? leading : least_normal;
  // The unit in the last place is 2^(scale - mantissa). A normal's significand
  // still holds its implicit one, which adds 1 to the exponent field; so does a
  // carry out of rounding, of a denormal too.
  const int shift = scale - f.mantissa - exponent;
  const uint64_t significand = shift > 0 ? RoundedShift(magnitude, shift) : magnitude << -shift;
  const uint64_t pattern = (static_cast<uint64_t>(scale + f.bias - 1) << f.mantissa) + significand;
  if (pattern > f.max_finite) return WithSign(f, f.saturates ? f.max_finite : f.infinity, negative);
  return WithSign(f, pattern, negative);
}

uint64_t Encode(const Format& f, double value) {
  if (std::isnan(value)) return f.nan;
  const bool negative = std::signbit(value);
  if (std::isinf(value)) return f.infinity != 0 ? WithSign(f, f.infinity, negative) : f.nan;
  const uint64_t raw = std::bit_cast<uint64_t>(value);
  const int field = static_cast<int>(raw >> 52 & 0x7FF);
  const uint64_t fraction = raw & 0xF'FFFF'FFFF'FFFF;
  if (field == 0) return Encode(f, negative, fraction, -1074);
  return Encode(f, negative, fraction | uint64_t{1} << 52, field - 1075);
}

double Decode(const Format& f, uint64_t bits) {
  const uint64_t sign = uint64_t{1} << (f.exponent + f.mantissa);
  bits &= (sign << 1) - 1;
  const uint64_t magnitude = bits & (sign - 1);
  const bool negative = (bits & sign) != 0;
  double value = std::numeric_limits<double>::quiet_NaN();
  if (f.fnuz && bits == f.nan) return value;
  if (magnitude <= f.max_finite) {
    const uint64_t field = magnitude >> f.mantissa;
    const uint64_t fraction = magnitude & ((uint64_t{1} << f.mantissa) - 1);
    const uint64_t significand = field == 0 ? fraction : fraction | uint64_t{1} << f.mantissa;
    value =
        std::ldexp(static_cast<double>(significand), static_cast<int>(field == 0 ? 1 : field) - f.bias - f.mantissa);
  } else if (f.infinity != 0 && magnitude == f.infinity) {
    value = std::numeric_limits<double>::infinity();
  }
  return negative ? -value : value;
}

}  // namespace

bool IsFloatDType(v1::DType dtype) { return FormatOf(dtype) != nullptr; }

uint64_t FloatToBits(v1::DType dtype, double value) { return Encode(CheckedFormatOf(dtype), value); }

uint64_t SignedToFloatBits(v1::DType dtype, int64_t value) {
  const uint64_t raw = static_cast<uint64_t>(value);
  return Encode(CheckedFormatOf(dtype), value < 0, value < 0 ? ~raw + 1 : raw, 0);
}

uint64_t UnsignedToFloatBits(v1::DType dtype, uint64_t value) {
  return Encode(CheckedFormatOf(dtype), false, value, 0);
}

double BitsToFloat(v1::DType dtype, uint64_t bits) {
  if (dtype == v1::FLOAT64 || dtype == v1::WEAKFLOAT) return std::bit_cast<double>(bits);
  if (dtype == v1::FLOAT32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  return Decode(CheckedFormatOf(dtype), bits);
}

uint64_t QuietNanBits(v1::DType dtype) { return CheckedFormatOf(dtype).nan; }

}  // namespace kiln
