// Arithmetic of float32 and float64. The host's own operations are IEEE's; this file must not be compiled
// with contraction of a * b + c, nor with anything else that is faster and wrong.
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tests/support/ptx/alu.h"

namespace kiln::testing::ptx {
namespace {

// Subnormal numbers, taken and given, are zeros of their sign where kFlush.
template <bool kFlush, typename T>
T Flushed(T value) {
  return kFlush && std::abs(value) < std::numeric_limits<T>::min() ? std::copysign(T{0}, value) : value;
}
// Into [0, 1], NaN to 0.
template <bool kSaturate, typename T>
T Saturated(T value) {
  if (!kSaturate) return value;
  return value > 0 ? std::min(value, T{1}) : T{0};
}

struct Add {
  template <typename T>
  static T Of(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <typename T>
  static T Of(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <typename T>
  static T Of(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <typename T>
  static T Of(T a, T b) {
    return a / b;
  }
};
// NaN only if both are; -0 is less than 0.
struct Min {
  template <typename T>
  static T Of(T a, T b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? a : b;
    return a < b ? a : b;
  }
};
struct Max {
  template <typename T>
  static T Of(T a, T b) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    if (a == b) return std::signbit(a) ? b : a;
    return a > b ? a : b;
  }
};
template <typename Op>
struct OrNan {
  template <typename T>
  static T Of(T a, T b) {
    return std::isnan(a) || std::isnan(b) ? std::numeric_limits<T>::quiet_NaN() : Op::Of(a, b);
  }
};

template <typename T, typename Op, bool kFlush, bool kSaturate>
void Binary(uint64_t* r, const Instruction& i) {
  const T a = Flushed<kFlush>(Source<T>(r, i, 1)), b = Flushed<kFlush>(Source<T>(r, i, 2));
  r[i.at[0]] = Bits(Saturated<kSaturate>(Flushed<kFlush>(Op::Of(a, b))));
}
template <typename T, bool kFlush, bool kSaturate>
void Fma(uint64_t* r, const Instruction& i) {
  const T a = Flushed<kFlush>(Source<T>(r, i, 1)), b = Flushed<kFlush>(Source<T>(r, i, 2)),
          c = Flushed<kFlush>(Source<T>(r, i, 3));
  r[i.at[0]] = Bits(Saturated<kSaturate>(Flushed<kFlush>(std::fma(a, b, c))));
}
// Two at once, in the halves of 64 bits.
float LaneOf(uint64_t pair, int lane) { return As<float>(pair >> (32 * lane) & 0xffffffff); }
template <typename Op>
void Pairs(uint64_t* r, const Instruction& i) {
  const uint64_t a = Source<uint64_t>(r, i, 1), b = Source<uint64_t>(r, i, 2);
  r[i.at[0]] = Bits(Op::Of(LaneOf(a, 0), LaneOf(b, 0))) | Bits(Op::Of(LaneOf(a, 1), LaneOf(b, 1))) << 32;
}
void FmaOfPairs(uint64_t* r, const Instruction& i) {
  const uint64_t a = Source<uint64_t>(r, i, 1), b = Source<uint64_t>(r, i, 2), c = Source<uint64_t>(r, i, 3);
  r[i.at[0]] = Bits(std::fma(LaneOf(a, 0), LaneOf(b, 0), LaneOf(c, 0))) |
               Bits(std::fma(LaneOf(a, 1), LaneOf(b, 1), LaneOf(c, 1))) << 32;
}
template <typename T, T (*kFunction)(T), bool kFlush>
void Unary(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Bits(Flushed<kFlush>(kFunction(Flushed<kFlush>(Source<T>(r, i, 1)))));
}

// Signs, of NaN as well.
template <typename T, typename U>
constexpr U kSign = U{1} << (8 * sizeof(U) - 1);
template <typename T, typename U, bool kFlush>
void Negated(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = std::bit_cast<U>(Flushed<kFlush>(Source<T>(r, i, 1))) ^ kSign<T, U>;
}
template <typename T, typename U, bool kFlush>
void Absolute(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = std::bit_cast<U>(Flushed<kFlush>(Source<T>(r, i, 1))) & ~kSign<T, U>;
}
// The sign of the first source, all else of the second.
template <typename U>
void CopySign(uint64_t* r, const Instruction& i) {
  constexpr U kTop = U{1} << (8 * sizeof(U) - 1);
  r[i.at[0]] = (Source<U>(r, i, 1) & kTop) | (Source<U>(r, i, 2) & static_cast<U>(~kTop));
}

template <typename T>
T SquareRoot(T a) {
  return std::sqrt(a);
}
template <typename T>
T Reciprocal(T a) {
  return T{1} / a;
}
// Approximations: the card's own tables are not known; these are the values they are close to.
float ReciprocalRoot(float a) { return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a))); }
double ReciprocalRoot64(double a) { return 1.0 / std::sqrt(a); }
float Sine(float a) { return static_cast<float>(std::sin(static_cast<double>(a))); }
float Cosine(float a) { return static_cast<float>(std::cos(static_cast<double>(a))); }
float Log2(float a) { return static_cast<float>(std::log2(static_cast<double>(a))); }
float Exp2(float a) { return static_cast<float>(std::exp2(static_cast<double>(a))); }
float HyperbolicTangent(float a) { return static_cast<float>(std::tanh(static_cast<double>(a))); }

enum class Class { kFinite, kInfinite, kNumber, kNan, kNormal, kSubnormal };
template <typename T, Class kClass>
void Test(uint64_t* r, const Instruction& i) {
  const T a = Source<T>(r, i, 1);
  bool is = false;
  switch (kClass) {
    case Class::kFinite: is = std::isfinite(a); break;
    case Class::kInfinite: is = std::isinf(a); break;
    case Class::kNumber: is = !std::isnan(a); break;
    case Class::kNan: is = std::isnan(a); break;
    case Class::kNormal: is = std::isnormal(a); break;
    case Class::kSubnormal: is = std::fpclassify(a) == FP_SUBNORMAL; break;
  }
  r[i.at[0]] = is ? 1 : 0;
}
template <typename T>
void AddTests(AluTable& table, const std::string& type) {
  table["testp.finite." + type] = {Test<T, Class::kFinite>, 2};
  table["testp.infinite." + type] = {Test<T, Class::kInfinite>, 2};
  table["testp.number." + type] = {Test<T, Class::kNumber>, 2};
  table["testp.notanumber." + type] = {Test<T, Class::kNan>, 2};
  table["testp.normal." + type] = {Test<T, Class::kNormal>, 2};
  table["testp.subnormal." + type] = {Test<T, Class::kSubnormal>, 2};
}

template <bool kFlush, bool kSaturate>
void AddSums(AluTable& table, const std::string& ending) {
  for (const char* rounding : {"", ".rn"}) {
    table[absl::StrCat("add", rounding, ending)] = {Binary<float, Add, kFlush, kSaturate>, 3};
    table[absl::StrCat("sub", rounding, ending)] = {Binary<float, Sub, kFlush, kSaturate>, 3};
    table[absl::StrCat("mul", rounding, ending)] = {Binary<float, Mul, kFlush, kSaturate>, 3};
  }
  table["fma.rn" + ending] = {Fma<float, kFlush, kSaturate>, 4};
  table["mad.rn" + ending] = {Fma<float, kFlush, kSaturate>, 4};
}

template <bool kFlush>
void AddSingles(AluTable& table, const std::string& ending) {
  for (const char* kind : {".rn", ".full", ".approx"})
    table[absl::StrCat("div", kind, ending)] = {Binary<float, Div, kFlush, false>, 3};
  for (const char* kind : {".rn", ".approx"}) {
    table[absl::StrCat("rcp", kind, ending)] = {Unary<float, Reciprocal<float>, kFlush>, 2};
    table[absl::StrCat("sqrt", kind, ending)] = {Unary<float, SquareRoot<float>, kFlush>, 2};
  }
  table["rsqrt.approx" + ending] = {Unary<float, ReciprocalRoot, kFlush>, 2};
  table["sin.approx" + ending] = {Unary<float, Sine, kFlush>, 2};
  table["cos.approx" + ending] = {Unary<float, Cosine, kFlush>, 2};
  table["lg2.approx" + ending] = {Unary<float, Log2, kFlush>, 2};
  table["ex2.approx" + ending] = {Unary<float, Exp2, kFlush>, 2};
  table["min" + ending] = {Binary<float, Min, kFlush, false>, 3};
  table["max" + ending] = {Binary<float, Max, kFlush, false>, 3};
  const std::string flush = kFlush ? ".ftz" : "";
  table[absl::StrCat("min", flush, ".NaN.f32")] = {Binary<float, OrNan<Min>, kFlush, false>, 3};
  table[absl::StrCat("max", flush, ".NaN.f32")] = {Binary<float, OrNan<Max>, kFlush, false>, 3};
  table["neg" + ending] = {Negated<float, uint32_t, kFlush>, 2};
  table["abs" + ending] = {Absolute<float, uint32_t, kFlush>, 2};
}

}  // namespace

void AddFloats(AluTable& table) {
  AddSums<false, false>(table, ".f32");
  AddSums<true, false>(table, ".ftz.f32");
  AddSums<false, true>(table, ".sat.f32");
  AddSums<true, true>(table, ".ftz.sat.f32");
  AddSingles<false>(table, ".f32");
  AddSingles<true>(table, ".ftz.f32");
  table["add.rn.f32x2"] = {Pairs<Add>, 3};
  table["sub.rn.f32x2"] = {Pairs<Sub>, 3};
  table["mul.rn.f32x2"] = {Pairs<Mul>, 3};
  table["fma.rn.f32x2"] = {FmaOfPairs, 4};
  table["tanh.approx.f32"] = {Unary<float, HyperbolicTangent, false>, 2};
  for (const char* rounding : {"", ".rn"}) {
    table[absl::StrCat("add", rounding, ".f64")] = {Binary<double, Add, false, false>, 3};
    table[absl::StrCat("sub", rounding, ".f64")] = {Binary<double, Sub, false, false>, 3};
    table[absl::StrCat("mul", rounding, ".f64")] = {Binary<double, Mul, false, false>, 3};
  }
  table["fma.rn.f64"] = {Fma<double, false, false>, 4};
  table["mad.rn.f64"] = {Fma<double, false, false>, 4};
  table["div.rn.f64"] = {Binary<double, Div, false, false>, 3};
  table["rcp.rn.f64"] = {Unary<double, Reciprocal<double>, false>, 2};
  table["rcp.approx.ftz.f64"] = {Unary<double, Reciprocal<double>, true>, 2};
  table["sqrt.rn.f64"] = {Unary<double, SquareRoot<double>, false>, 2};
  table["rsqrt.approx.f64"] = {Unary<double, ReciprocalRoot64, false>, 2};
  table["min.f64"] = {Binary<double, Min, false, false>, 3};
  table["max.f64"] = {Binary<double, Max, false, false>, 3};
  table["neg.f64"] = {Negated<double, uint64_t, false>, 2};
  table["abs.f64"] = {Absolute<double, uint64_t, false>, 2};
  table["copysign.f32"] = {CopySign<uint32_t>, 3};
  table["copysign.f64"] = {CopySign<uint64_t>, 3};
  AddTests<float>(table, "f32");
  AddTests<double>(table, "f64");
}

const AluTable& AluInstructions() {
  static const AluTable* const kTable = [] {
    auto* table = new AluTable;
    AddIntegers(*table);
    AddBits(*table);
    AddFloats(*table);
    AddHalves(*table);
    AddComparisons(*table);
    AddConversions(*table);
    return table;
  }();
  return *kTable;
}

}  // namespace kiln::testing::ptx
