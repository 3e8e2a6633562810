// Vectors as the loops by hand use them: 16 floats, of any alignment, through the
// compiler's vector extensions, so that one text serves every width of register.
#ifndef KILN_TESTS_BENCH_SUITE_HAND_VECTOR_H_
#define KILN_TESTS_BENCH_SUITE_HAND_VECTOR_H_

#include <algorithm>
#include <cstdint>

namespace kiln::bench {

// The alignment is one of the names', not of what is to their right: there Clang takes no notice of it.
using Vector [[gnu::aligned(4)]] = float __attribute__((vector_size(64), may_alias));
using Integers [[gnu::aligned(4)]] = int32_t __attribute__((vector_size(64), may_alias));
inline constexpr int64_t kLanes = 16;

inline const Vector& At(const float* p) { return *reinterpret_cast<const Vector*>(p); }
inline Vector& At(float* p) { return *reinterpret_cast<Vector*>(p); }

// By reference, and always into their callers, which are compiled for other
// processors than this text by itself.
[[gnu::always_inline]] inline float Total(const Vector& v) {
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += v[lane];
  return sum;
}

[[gnu::always_inline]] inline float Greatest(const Vector& v) {
  float most = v[0];
  for (int lane = 1; lane < kLanes; ++lane) most = std::max(most, v[lane]);
  return most;
}

struct AddTo {
  [[gnu::always_inline]] static inline void Do(Vector& into, const Vector& v) { into += v; }
  [[gnu::always_inline]] static inline float Reduce(const Vector& v) { return Total(v); }
  static float Join(float a, float b) { return a + b; }
};

struct MaxWith {
  [[gnu::always_inline]] static inline void Do(Vector& into, const Vector& v) { into = into > v ? into : v; }
  [[gnu::always_inline]] static inline float Reduce(const Vector& v) { return Greatest(v); }
  static float Join(float a, float b) { return std::max(a, b); }
};

// v becomes e^v, within 2 ulp; for what lies between -87 and 88, as softmax's do.
[[gnu::always_inline]] inline void ExpOf(Vector& v) {
  constexpr float kRound = 12582912;  // 1.5 * 2^23: adding it rounds to an integer
  const Vector scaled = v * 1.44269504f;
  const Vector rounded = scaled + kRound;
  const Vector whole = rounded - kRound;
  const Vector rest = (v - whole * 0.693359375f) + whole * 2.12194440e-4f;  // ln 2 in two parts
  Vector sum = rest * (1.0f / 720) + (1.0f / 120);
  sum = sum * rest + (1.0f / 24);
  sum = sum * rest + (1.0f / 6);
  sum = sum * rest + 0.5f;
  sum = sum * rest + 1.0f;
  sum = sum * rest + 1.0f;
  // 2^whole by its exponent: the low bits of `rounded` are the integer.
  const Integers bits = reinterpret_cast<const Integers&>(rounded) << 23;
  const Integers result = reinterpret_cast<const Integers&>(sum) + bits;
  v = reinterpret_cast<const Vector&>(result);
}

}  // namespace kiln::bench

#endif  // KILN_TESTS_BENCH_SUITE_HAND_VECTOR_H_
