#include "compiler/rules/transcendental/float_parts.h"

#include <cmath>

namespace kiln::compiler {

Formula Pattern64(Formula like, uint64_t bits) { return {like.graph(), ConstBits(like.graph(), like.dtype(), bits)}; }
Formula Infinity(Formula like) { return Pattern64(like, LayoutOf(like.dtype()).infinity); }
Formula NotANumber(Formula like) { return like.Like(std::nan("")); }

Formula Abs(Formula x) {
  const FloatLayout& layout = LayoutOf(x.dtype());
  return (x.BitsAs(layout.unsigned_bits) & ~layout.sign).BitsAs(x.dtype());
}

Formula SignBit(Formula x) {
  const FloatLayout& layout = LayoutOf(x.dtype());
  return x.BitsAs(layout.unsigned_bits) & layout.sign;
}

Formula WithSign(Formula x, Formula sign_bit) {
  return (x.BitsAs(LayoutOf(x.dtype()).unsigned_bits) ^ sign_bit).BitsAs(x.dtype());
}

namespace {

// Beside 1.5 * 2^mantissa a float has no bits left for a fraction: an addition
// rounds it off, and the pattern's low bits count.
double Big(const FloatLayout& layout) { return std::ldexp(1.5, layout.mantissa); }
int64_t BigBits(const FloatLayout& layout) {
  return (int64_t{layout.bias + layout.mantissa} << layout.mantissa) | int64_t{1} << (layout.mantissa - 1);
}

}  // namespace

Rounded RoundToInteger(Formula x) {
  const FloatLayout& layout = LayoutOf(x.dtype());
  const Formula shifted = x + Big(layout);
  return {shifted.BitsAs(layout.signed_bits) - BigBits(layout), x - (shifted - Big(layout))};
}

Formula SmallToFloat(Formula n, const FloatLayout& layout) {
  if (layout.mantissa < 32) return n.As(layout.dtype);
  // Few vector units convert 64-bit integers; they all add.
  return (n + BigBits(layout)).BitsAs(layout.dtype) - Big(layout);
}

// In two factors, each a normal number: the first product is exact.
Formula Scale(Formula x, Formula n) {
  const FloatLayout& layout = LayoutOf(x.dtype());
  const Formula half = n >> 1;
  const auto power = [&](Formula k) { return ((k + layout.bias) << layout.mantissa).BitsAs(layout.dtype); };
  return x * power(half) * power(n - half);
}

Split SplitExponent(Formula x, bool may_be_denormal) {
  const FloatLayout& layout = LayoutOf(x.dtype());
  const double least_normal = std::ldexp(1, 1 - layout.bias);
  const int lift = layout.mantissa + 1;
  Formula normal = x;
  if (may_be_denormal) normal = Where(x < least_normal, x * std::ldexp(1, lift), x);
  const Formula bits = normal.BitsAs(layout.signed_bits);
  // From sqrt(1/2) on the exponent field steps where m would reach sqrt(2).
  const Formula e = (bits - static_cast<int64_t>(layout.root_half)) >> layout.mantissa;
  const Formula m = (bits - (e << layout.mantissa)).BitsAs(layout.dtype);
  if (!may_be_denormal) return {SmallToFloat(e, layout), m};
  return {SmallToFloat(Where(x < least_normal, e - lift, e), layout), m};
}

}  // namespace kiln::compiler
