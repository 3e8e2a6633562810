// LOG2: x = m * 2^e with m near 1, so log2(x) = e + log2(1 + r) with r = m - 1,
// exactly. Where e is 0 the logarithm alone is the result: it is r times
// something, so that it is as precise near 1 as anywhere.
#include "compiler/rules/transcendental/float_parts.h"
#include "compiler/rules/transcendental/transcendental.h"

namespace kiln::compiler {
namespace {

// log2(e) as float32 has it, and log2(1 + r) / r less that; error 2^-26.7.
constexpr double kLog2EFloat32 = 0x1.715476p+0;
constexpr double kFloat32[] = {0x1.49d566p-26, -0x1.71547p-1, 0x1.ec7096p-2,  -0x1.715a76p-2, 0x1.277e34p-2,
                               -0x1.eabc76p-3, 0x1.a30608p-3, -0x1.874cf2p-3, 0x1.7d4726p-3,  -0x1.c24fa2p-4};

// log2(e) in two float64.
constexpr double kLog2E = 0x1.71547652b82fep+0, kLog2ERest = 0x1.777d0ffda0d24p-56;
// (atanh(s) / s - 1) / s^2, of s^2 up to 0.0295; error 2^-66.
constexpr double kAtanh[] = {0x1.5555555555555p-2, 0x1.9999999999b36p-3, 0x1.249249245718dp-3, 0x1.c71c722e7ac04p-4,
                             0x1.745ce980d631fp-4, 0x1.3b1efe7251769p-4, 0x1.0f7e2e73d82aap-4, 0x1.0e533bab96e81p-4};

Formula Log2Of1Plus(Formula r) {
  if (r.dtype() == DType::kFloat32) return r * Polynomial(r, kFloat32) + r * kLog2EFloat32;
  // ln(1 + r) = 2 atanh(s) with s = r / (2 + r); as r - s * (r - …), because r is
  // exact and the rest is small.
  const Formula s = r / (r + 2);
  const Formula z = s * s;
  const Formula rest = s * (r - z * Polynomial(z, kAtanh) * 2);
  return (r * kLog2ERest - rest * kLog2E) + r * kLog2E;
}

}  // namespace

Formula Log2(Formula x) {
  const Split parts = SplitExponent(x);
  const Formula finite = parts.e + Log2Of1Plus(parts.m - 1);
  const Formula positive = Where(x < Infinity(x), finite, Infinity(x));
  return Where(x.Like(0.0) < x, positive, Where(x != 0.0, NotANumber(x), -Infinity(x)));
}

}  // namespace kiln::compiler
