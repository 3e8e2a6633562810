// EXP2: x = integer + fraction, |fraction| <= 1/2; 2^fraction is a polynomial,
// and the integer goes into the exponent.
#include "compiler/rules/transcendental/float_parts.h"
#include "compiler/rules/transcendental/transcendental.h"

namespace kiln::compiler {
namespace {

// (2^r - 1) / r on [-1/2, 1/2]; the error of 2^r is 2^-26 and 2^-57.
constexpr double kFloat32[] = {0x1.62e43p-1,  0x1.ebfb94p-3,  0x1.c6af9ep-5,
                               0x1.3b67d4p-7, 0x1.5ef448p-10, 0x1.17c364p-13};
constexpr double kFloat64[] = {0x1.62e42fefa39efp-1,  0x1.ebfbdff82c5b3p-3,  0x1.c6b08d704a26fp-5,
                               0x1.3b2ab6fb9daccp-7,  0x1.5d87fe78458fep-10, 0x1.430913167a963p-13,
                               0x1.ffcbfe66050c7p-17, 0x1.62bfb4a95a2b3p-20, 0x1.b52083c05edd9p-24,
                               0x1.e63b7ce6cedadp-28, 0x1.f0e6496aeb9e2p-32};

}  // namespace

Formula Exp2OfParts(Formula integer, Formula fraction) {
  const bool wide = fraction.dtype() == DType::kFloat64;
  const Formula slope = Polynomial(fraction, wide ? absl::MakeConstSpan(kFloat64) : absl::MakeConstSpan(kFloat32));
  return Scale(fraction * slope + 1, integer);
}

Formula Exp2(Formula x) {
  const FloatLayout& layout = LayoutOf(x.dtype());
  // Beyond these all is 0 or infinite, and the exponent would overflow. NaN
  // passes: neither comparison holds.
  const double least = layout.least_exponent - 2, most = layout.bias + 1;
  Formula within = Where(x < least, x.Like(least), x);
  within = Where(most < within, x.Like(most), within);
  const Rounded parts = RoundToInteger(within);
  return Exp2OfParts(parts.integer, parts.fraction);
}

}  // namespace kiln::compiler
