// Functions that the IR has no op for: tanh and erf, as compositions that are
// good to about 2 ulp in float32 and float64.
//
// Near 0 each is x times a polynomial of x^2, as precise relative to the result
// as x is; farther out each is 1 less something small, which may be less precise.
// The narrower floats are computed in float32.
#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "client/cpp/elementwise.h"

namespace kiln::client {
namespace {

// (tanh(x) / x - 1) / x^2 of x^2 up to 0.3025. compiler/rules/transcendental/minimax.py derives
// these and those below; errors of tanh 2^-29 and 2^-60.
constexpr double kTanhFloat32[] = {-0x1.55554abb25aa0p-2, 0x1.110d24f29578dp-3, -0x1.b92841fc16661p-5,
                                   0x1.593b1376e545bp-6, -0x1.9b248f6df240fp-8};
constexpr double kTanhFloat64[] = {-0x1.555555555554fp-2,  0x1.1111111110797p-3,  -0x1.ba1ba1b97d189p-5,
                                   0x1.664f485956cfcp-6,   -0x1.226e2f1115035p-7, 0x1.d6d29b09dc448p-9,
                                   -0x1.7d8fcc64c7a77p-10, 0x1.348371128c759p-11, -0x1.e96d443c91315p-13,
                                   0x1.5d6cfda94ce0cp-14,  -0x1.46fe6ddb9b6fbp-16};
constexpr double kTanhNear = 0.55;
constexpr double kTwoLog2E = 2.8853900817779268;

// erf(x) / x - 1 of x^2 up to 1, errors 2^-29 and 2^-62; and -log2(1 - erf(x))
// from 1 to 4 and to 6, where the rest is beyond the dtype; errors of erf 2^-29
// and 2^-57.
constexpr double kErfFloat32[] = {0x1.06eba7f029783p-3,  -0x1.81273dcbd494ap-2, 0x1.ce2cf38cd2398p-4,
                                  -0x1.b7f8d9d69fc43p-6, 0x1.540458618ebe0p-8,  -0x1.a3ee3dc164307p-11,
                                  0x1.49544c6539df2p-14};
constexpr double kErfFloat64[] = {0x1.06eba8214db69p-3,   -0x1.812746b0379e6p-2,  0x1.ce2f21a042b1bp-4,
                                  -0x1.b82ce31284865p-6,  0x1.565bcd0dadbfap-8,   -0x1.c02db3d88cb26p-11,
                                  0x1.f9a3219758150p-14,  -0x1.f4d1de8ec0a9bp-17, 0x1.b9dee9bcc2043p-20,
                                  -0x1.5f1cf87435298p-23, 0x1.f7a19b76b8bb4p-27,  -0x1.38638923c7937p-30,
                                  0x1.05670e0f8c407p-34};
constexpr double kErfcFloat32[] = {0x1.0b8d08p-11, 0x1.a03fe6p+0, 0x1.d76e84p-1, 0x1.30703p-3,
                                   -0x1.01b512p-5, 0x1.15ef66p-8, -0x1.18bb4p-12};
constexpr double kErfcFloat64[] = {0x1.8df9f76e25135p-21,  0x1.a0be0672e64b4p+0,   0x1.d6436feb3ce26p-1,
                                   0x1.2f72b388aaf33p-3,   -0x1.c0d1e03dabfc6p-6,  -0x1.38e9400adde9cp-11,
                                   0x1.6ae58b934991ap-9,   -0x1.246855eed322ap-10, 0x1.9d631d146e52bp-13,
                                   0x1.d7a3d6d2660eep-16,  -0x1.10862e16c629fp-15, 0x1.9f143e953f3d6p-17,
                                   -0x1.994db30865828p-19, 0x1.1e1aa9595b09bp-21,  -0x1.1c78e16d662b0p-24,
                                   0x1.8173d92ab4b96p-28,  -0x1.404b75e52fbf8p-32, 0x1.ed9b2ca6c7dd2p-38};

// c[0] + x * (c[1] + x * (c[2] + …))
template <size_t count>
Tensor Polynomial(Tensor x, const double (&c)[count]) {
  Tensor sum = x * c[count - 1] + c[count - 2];
  for (size_t i = count - 2; i-- > 0;) sum = sum * x + c[i];
  return sum;
}

// `far` for x > 0, and its mirror image.
Tensor Odd(Tensor x, Tensor is_near, Tensor near, Tensor far) { return Where(is_near, near, Where(x < 0, -far, far)); }

Tensor Refused(absl::string_view function, Tensor x) {
  if (!x.valid()) return x;
  return x.graph()->Fail(v1::DTYPE_MISMATCH, function, absl::StrCat("takes floats, not ", DTypeName(x.dtype())));
}

bool IsNarrow(Tensor x) { return DTypeSize(x.dtype()) < 4; }

}  // namespace

Tensor Tanh(Tensor x) {
  if (!x.valid() || !IsFloat(x.dtype())) return Refused("Tanh", x);
  if (IsNarrow(x)) return Cast(Tanh(Cast(x, v1::FLOAT32)), x.dtype());
  const Tensor square = x * x;
  const Tensor series = x.dtype() == v1::FLOAT64 ? Polynomial(square, kTanhFloat64) : Polynomial(square, kTanhFloat32);
  const Tensor a = Abs(x);
  return Odd(x, a < kTanhNear, x * (1 + square * series), 1 - 2 * Reciprocal(1 + Exp2(a * kTwoLog2E)));
}

Tensor Erf(Tensor x) {
  if (!x.valid() || !IsFloat(x.dtype())) return Refused("Erf", x);
  if (IsNarrow(x)) return Cast(Erf(Cast(x, v1::FLOAT32)), x.dtype());
  const bool wide = x.dtype() == v1::FLOAT64;
  const Tensor square = x * x;
  const Tensor series = wide ? Polynomial(square, kErfFloat64) : Polynomial(square, kErfFloat32);
  const Tensor a = Abs(x);
  const double most = wide ? 6 : 4;
  const Tensor within = Where(a > most, most, a);  // NaN passes
  const Tensor rest = wide ? Polynomial(within, kErfcFloat64) : Polynomial(within, kErfcFloat32);
  return Odd(x, a < 1, x + x * series, 1 - Exp2(-rest));
}

}  // namespace kiln::client
