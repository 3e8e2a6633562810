// Angles and hyperbolas, from sine, exponential and logarithm.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <limits>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

constexpr double kHalfPi = 1.5707963267948966;

// Abramowitz and Stegun 4.4.49's way: the angle halved twice makes the argument small, then the
// series in its odd powers. atan(x) = 2 atan(x / (1 + sqrt(1 + x^2))); and for |x| > 1 it is pi/2 - atan(1/x).
Tensor Atan(Tensor x) {
  const Tensor a = Abs(x);
  Tensor t = Where(a > 1.0, Reciprocal(a), a);
  for (int i = 0; i < 2; ++i) t = t / (1.0 + Sqrt(1.0 + t * t));
  const Tensor square = t * t;
  Tensor series = Filled(x, 0);
  for (int k = 12; k >= 0; --k) series = series * square + (k % 2 == 0 ? 1.0 : -1.0) / (2 * k + 1);
  const Tensor angle = 4.0 * t * series;
  const Tensor turned = Where(a > 1.0, kHalfPi - angle, angle);
  return Where(x < 0.0, -turned, turned);
}

// atan(x / sqrt((1 - x)(1 + x))); at the ends the quotient is infinite and the angle right.
Tensor Asin(Tensor x) { return Atan(x / Sqrt((1.0 - x) * (1.0 + x))); }
Tensor Acos(Tensor x) { return 2.0 * Atan(Sqrt((1.0 - x) / (1.0 + x))); }

// By halves of e^x, of which for small x little is left: there the series.
Tensor Sinh(Tensor x) {
  const Tensor square = x * x;
  const Tensor series =
      x * (1.0 + square * (1.0 / 6 + square * (1.0 / 120 + square * (1.0 / 5040 + square * (1.0 / 362880)))));
  return Where(Abs(x) < 0.5, series, 0.5 * (Exp(x) - Exp(-x)));
}
Tensor Cosh(Tensor x) { return 0.5 * (Exp(x) + Exp(-x)); }

// log(1 + y) for small y loses y's low bits; y times log(u) / (u - 1) with u = 1 + y has them (Kahan).
Tensor Log1p(Tensor y) {
  const Tensor u = 1.0 + y;
  return Where(u == 1.0, y, Log(u) * (y / (u - 1.0)));
}

Tensor Asinh(Tensor x) {
  const Tensor a = Abs(x), square = a * a;
  const Tensor result = Log1p(a + square / (1.0 + Sqrt(1.0 + square)));
  return Where(x < 0.0, -result, result);
}
Tensor Acosh(Tensor x) { return Log1p((x - 1.0) + Sqrt((x - 1.0) * (x + 1.0))); }
Tensor Atanh(Tensor x) { return 0.5 * Log1p(2.0 * x / (1.0 - x)); }

constexpr OpRow kRows[] = {
    KILN_UNARY_IN_WIDE("Sin", 7, Sin(x)),          KILN_UNARY_IN_WIDE("Cos", 7, Cos(x)),
    KILN_UNARY_IN_WIDE("Tan", 7, Sin(x) / Cos(x)), KILN_UNARY_IN_WIDE("Asin", 7, Asin(x)),
    KILN_UNARY_IN_WIDE("Acos", 7, Acos(x)),        KILN_UNARY_IN_WIDE("Atan", 7, Atan(x)),
    KILN_UNARY_IN_WIDE("Sinh", 9, Sinh(x)),        KILN_UNARY_IN_WIDE("Cosh", 9, Cosh(x)),
    KILN_UNARY_IN_WIDE("Asinh", 9, Asinh(x)),      KILN_UNARY_IN_WIDE("Acosh", 9, Acosh(x)),
    KILN_UNARY_IN_WIDE("Atanh", 9, Atanh(x)),
};

}  // namespace

OpRows TrigonometryOps() { return kRows; }

}  // namespace kiln::onnx
