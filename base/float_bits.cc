#include "base/float_bits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace kiln {
namespace {

// How a format is laid out below its sign bit.
struct Format {
  int exponent_bits;
  int mantissa_bits;
  int bias;
  bool has_infinity;
  bool saturates;
  bool fnuz;  // no negative zero, whose pattern is the only NaN
};

Format FormatOf(v1::DType dtype) {
  switch (dtype) {
    case v1::FLOAT16: return {5, 10, 15, true, false, false};
    case v1::BFLOAT16: return {8, 7, 127, true, false, false};
    case v1::FLOAT32: return {8, 23, 127, true, false, false};
    case v1::FLOAT8_E4M3: return {4, 3, 7, false, true, false};
    case v1::FLOAT8_E5M2: return {5, 2, 15, true, true, false};
    case v1::FLOAT8_E4M3_FNUZ: return {4, 3, 8, false, true, true};
    case v1::FLOAT8_E5M2_FNUZ: return {5, 2, 16, false, true, true};
    default: KILN_CHECK(dtype == v1::FLOAT64 || dtype == v1::WEAKFLOAT); return {11, 52, 1023, true, false, false};
  }
}

uint64_t MaxExponentField(const Format& f) { return (uint64_t{1} << f.exponent_bits) - 1; }

// The greatest finite magnitude's bits.
uint64_t MaxFinite(const Format& f) {
  const uint64_t all = (MaxExponentField(f) << f.mantissa_bits) | ((uint64_t{1} << f.mantissa_bits) - 1);
  if (f.fnuz) return all;
  return f.has_infinity ? (MaxExponentField(f) << f.mantissa_bits) - 1 : all - 1;
}

uint64_t QuietNan(const Format& f, uint64_t sign, uint64_t payload52) {
  if (f.fnuz) return uint64_t{1} << (f.exponent_bits + f.mantissa_bits);
  const uint64_t mantissa_mask = (uint64_t{1} << f.mantissa_bits) - 1;
  if (!f.has_infinity) return sign | (MaxExponentField(f) << f.mantissa_bits) | mantissa_mask;
  const uint64_t payload = (payload52 >> (52 - f.mantissa_bits)) & mantissa_mask;
  return sign | (MaxExponentField(f) << f.mantissa_bits) | payload | (uint64_t{1} << (f.mantissa_bits - 1));
}

}  // namespace

double BitsToFloat(v1::DType dtype, uint64_t bits) {
  const Format f = FormatOf(dtype);
  if (f.mantissa_bits == 52) return std::bit_cast<double>(bits);
  const bool negative = (bits >> (f.exponent_bits + f.mantissa_bits)) & 1;
  const uint64_t exponent = (bits >> f.mantissa_bits) & MaxExponentField(f);
  const uint64_t mantissa = bits & ((uint64_t{1} << f.mantissa_bits) - 1);
  const uint64_t magnitude = (exponent << f.mantissa_bits) | mantissa;
  if (f.fnuz && negative && magnitude == 0) return std::numeric_limits<double>::quiet_NaN();
  if (magnitude > MaxFinite(f)) {
    if (f.has_infinity && mantissa == 0) return negative ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
    const uint64_t payload = f.has_infinity ? mantissa << (52 - f.mantissa_bits) : uint64_t{1} << 51;
    return std::bit_cast<double>((uint64_t{negative} << 63) | (uint64_t{0x7FF} << 52) | payload);
  }
  const double value = exponent == 0 ? std::ldexp(static_cast<double>(mantissa), 1 - f.bias - f.mantissa_bits)
                                     : std::ldexp(static_cast<double>(mantissa | (uint64_t{1} << f.mantissa_bits)),
                                                  static_cast<int>(exponent) - f.bias - f.mantissa_bits);
  return negative ? -value : value;
}

uint64_t FloatToBits(v1::DType dtype, double value) {
  const Format f = FormatOf(dtype);
  const auto wide = std::bit_cast<uint64_t>(value);
  if (f.mantissa_bits == 52) return wide;
  const uint64_t sign = (wide >> 63) << (f.exponent_bits + f.mantissa_bits);
  if (std::isnan(value)) return QuietNan(f, sign, wide & ((uint64_t{1} << 52) - 1));
  const uint64_t infinity = f.has_infinity && !f.saturates ? MaxExponentField(f) << f.mantissa_bits : MaxFinite(f);
  if (std::isinf(value)) return sign | (f.has_infinity ? MaxExponentField(f) << f.mantissa_bits : MaxFinite(f));
  if (value == 0) return f.fnuz ? 0 : sign;

  // magnitude = significand * 2^scale with a 53-bit significand.
  int exponent = 0;
  const auto significand = static_cast<uint64_t>(std::ldexp(std::frexp(std::fabs(value), &exponent), 53));
  // Drop the bits below the target's last place, which is lower bound by its
  // denormals; the increment of rounding may carry into the exponent, as it
  // should.
  const int target = std::max(exponent - 1, 1 - f.bias);
  const int drop = 53 - 1 - f.mantissa_bits + (target - (exponent - 1));
  uint64_t kept = 0;
  if (drop < 64) {
    kept = significand >> drop;
    const uint64_t rest = significand & ((uint64_t{1} << drop) - 1);
    const uint64_t half = uint64_t{1} << (drop - 1);
    if (rest > half || (rest == half && (kept & 1))) ++kept;
  }
  const uint64_t base = static_cast<uint64_t>(target + f.bias - 1) << f.mantissa_bits;
  const uint64_t magnitude = base + kept;  // the leading bit of `kept` is the exponent's last step
  if (magnitude > MaxFinite(f)) return sign | infinity;
  return f.fnuz && magnitude == 0 ? 0 : sign | magnitude;
}

}  // namespace kiln
