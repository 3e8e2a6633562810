// POW: |x|^y is 2^(y * log2(|x|)); the sign, and all that C99 says of zeros,
// infinities, NaN and negative x, is chosen afterwards.
//
// An error of log2(|x|) comes out multiplied by y, so by up to the greatest
// exponent there is: the logarithm needs ten bits more than the result. For
// float32 it is computed in float64. For float64 it is computed as a sum of two:
// the first part has few bits, so that its products are exact.
#include "compiler/rules/transcendental/float_parts.h"
#include "compiler/rules/transcendental/transcendental.h"

namespace kiln::compiler {
namespace {

// log2(1 + r) / r; error 2^-35.8.
constexpr double kLog2ForFloat32[] = {
    0x1.71547652a1ea2p+0,  -0x1.715476565d1ebp-1, 0x1.ec709ebb910a3p-2,  -0x1.71547097c24fcp-2, 0x1.277651fd3a762p-2,
    -0x1.ec72b589ade7fp-3, 0x1.a63f441dd81b8p-3,  -0x1.714171ac44f65p-3, 0x1.45291d4be5c8ep-3,  -0x1.252f34683b9e0p-3,
    0x1.2871cbd6c7c2dp-3,  -0x1.2488eab004147p-3, 0x1.3ce8e1e2b6ad8p-4};
// (atanh(s) / s - 1 - z / 3) / z^2 of z = s^2 up to 0.0295; error 2^-66.
constexpr double kAtanhTail[] = {0x1.9999999999b36p-3, 0x1.249249245718dp-3, 0x1.c71c722e7ac04p-4, 0x1.745ce980d631fp-4,
                                 0x1.3b1efe7251769p-4, 0x1.0f7e2e73d82aap-4, 0x1.0e533bab96e81p-4};
// 2 / (3 ln 2), whole and in two parts, the first of 26 bits.
constexpr double kTwoThirdsLog2E = 0x1.ec709dc3a03fdp-1;
constexpr double kTwoThirdsLog2EHigh = 0x1.ec709d8p-1, kTwoThirdsLog2ELow = 0x1.0e80ff5d27f05p-27;

// The upper 26 bits of a float64's significand.
Formula Upper(Formula x) { return (x.BitsAs(DType::kUint64) & ~int64_t{0x7FFFFFF}).BitsAs(DType::kFloat64); }

struct TwoPart {
  Formula high, low;  // high has at most 26 bits; |low| <= 2^-25 |high|
};

// log2(a) of finite a > 0, to about 2^-64 of itself: with s = (m - 1) / (m + 1),
// log2(m) = 2/(3 ln 2) * s * (3 + s^2 + 3 s^4 * …).
TwoPart PreciseLog2(Formula a) {
  const Split parts = SplitExponent(a);
  const Formula m = parts.m;
  const Formula r = m - 1;
  const Formula s = r / (m + 1);
  const Formula s_high = Upper(s);
  const Formula divisor_high = Upper(m + 1);
  const Formula divisor_low = m - (divisor_high - 1);
  const Formula s_low = ((r - s_high * divisor_high) - s_high * divisor_low) / (m + 1);
  // 3 + s^2 + …, in two parts
  const Formula z = s * s;
  const Formula z_high = s_high * s_high;  // exact
  const Formula tail = z * z * Polynomial(z, kAtanhTail) * 3 + s_low * (s_high + s);
  const Formula t_high = Upper(z_high + 3 + tail);
  const Formula t_low = tail - ((t_high - 3) - z_high);
  // times s
  const Formula u = s_high * t_high;  // exact
  const Formula v = s_low * t_high + t_low * s;
  const Formula p_high = Upper(u + v);
  const Formula p_low = v - (p_high - u);
  // times 2 / (3 ln 2), plus e
  const Formula w = p_high * kTwoThirdsLog2EHigh;  // exact
  const Formula w_low = p_high * kTwoThirdsLog2ELow + p_low * kTwoThirdsLog2E;
  const Formula high = Upper(parts.e + w + w_low);
  return {high, w_low - ((high - parts.e) - w)};
}

// y * log2(a) as an integer and a fraction, where that is within +-limit.
Rounded LogTimesFloat64(Formula y, Formula a, double limit) {
  const TwoPart log = PreciseLog2(a);
  // No product may overflow: beyond 2^64 every a but 1 gives 0 or infinity.
  Formula factor = Where(y < -0x1p64, y.Like(-0x1p64), y);
  factor = Where(factor.Like(0x1p64) < factor, y.Like(0x1p64), factor);
  const Formula y_high = Upper(factor);
  const Formula high = y_high * log.high;  // exact
  const Formula low = (factor - y_high) * log.high + factor * log.low;
  const Formula whole = high + low;
  const Formula too_low = whole < -limit, too_high = whole.Like(limit) < whole;
  const Formula outside = too_low | too_high;
  const Formula within = Where(outside, Where(too_low, y.Like(-limit), y.Like(limit)), whole);
  const Rounded parts = RoundToInteger(within);
  const Formula rounded = within - parts.fraction;
  return {parts.integer, Where(outside, y.Like(0.0), (high - rounded) + low)};
}

Rounded LogTimesFloat32(Formula y, Formula a, double limit) {
  const Split parts = SplitExponent(a.As(DType::kFloat64), /*may_be_denormal=*/false);
  const Formula r = parts.m - 1;
  const Formula whole = y.As(DType::kFloat64) * (parts.e + r * Polynomial(r, kLog2ForFloat32));
  Formula within = Where(whole < -limit, whole.Like(-limit), whole);
  within = Where(whole.Like(limit) < within, whole.Like(limit), within);
  const Rounded rounded = RoundToInteger(within);
  return {rounded.integer.As(DType::kInt32), rounded.fraction.As(DType::kFloat32)};
}

}  // namespace

Formula Pow(Formula x, Formula y) {
  const FloatLayout& layout = LayoutOf(x.dtype());
  const double limit = 26 - layout.least_exponent;  // all beyond is 0 or infinite
  const Formula zero = x.Like(0.0), one = x.Like(1.0), infinity = Infinity(x);
  const Formula a = Abs(x);
  const bool wide = x.dtype() == DType::kFloat64;
  const Rounded exponent = wide ? LogTimesFloat64(y, a, limit) : LogTimesFloat32(y, a, limit);
  Formula power = Exp2OfParts(exponent.integer, exponent.fraction);

  // |x| is 0 or infinite: so is the result, the one for y > 0, the other below.
  const Formula up = IsEqual(a, infinity) != (y < 0.0);
  power = Where((zero < a) & (a < infinity), power, Where(up, infinity, zero));
  // y is infinite: |x|^y is 0 or infinite by the side of 1 that |x| is on.
  const Formula y_infinite = IsEqual(Abs(y), infinity);
  const Formula grows = (one < a) != (y < 0.0);
  power = Where(y_infinite, Where(grows, infinity, zero), power);
  power = Where(IsEqual(a, one), one, power);
  // Odd integers keep the sign of x; with other fractions negative x has no power.
  const Formula whole = IsEqual(Trunc(y), y);
  const Formula odd = whole & (Trunc(y * 0.5) * 2.0 != y);
  const Formula sign = SignBit(x);
  power = Where(odd, WithSign(power, sign), power);
  const Formula imaginary = (x < 0.0) & (a < infinity) & !whole;
  const Formula nan = (x != x) | (y != y) | imaginary;
  power = Where(nan, NotANumber(x), power);
  return Where(IsEqual(x, one) | IsEqual(y, zero), one, power);
}

}  // namespace kiln::compiler
