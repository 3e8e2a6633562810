// Arithmetic of float16 and bfloat16, one value or two side by side. A double holds the product of two of
// them exactly; sums are rounded to odd first, so that there is one rounding in effect.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/float_bits.h"
#include "tests/support/ptx/alu.h"

namespace kiln::testing::ptx {
namespace {

template <typename F, bool kFlush>
double Read(uint16_t bits) {
  const double value = F::Value(bits);
  return kFlush && std::abs(value) < 0x1p-14 ? std::copysign(0.0, value) : value;
}
template <bool kFlush>
uint16_t FlushedBits(uint16_t bits) {
  return kFlush && (bits & 0x7c00) == 0 ? bits & 0x8000 : bits;
}

struct Add {
  static double Of(double a, double b, double) { return SumToOdd(a, b); }
};
struct Sub {
  static double Of(double a, double b, double) { return SumToOdd(a, -b); }
};
struct Mul {
  static double Of(double a, double b, double) { return a * b; }
};
struct Fma {
  static double Of(double a, double b, double c) { return SumToOdd(a * b, c); }
};
// Of what Fma rounds, not less than 0.
struct FmaRelu {
  static double Of(double a, double b, double c) {
    const double sum = SumToOdd(a * b, c);
    return sum < 0 ? 0 : sum;
  }
};
struct Min {
  static double Of(double a, double b, double) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  }
};
struct Max {
  static double Of(double a, double b, double) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  }
};
template <typename Op>
struct OrNan {
  static double Of(double a, double b, double c) { return std::isnan(a) || std::isnan(b) ? NAN : Op::Of(a, b, c); }
};
struct Exp2 {
  static double Of(double a, double, double) { return std::exp2(a); }
};
struct HyperbolicTangent {
  static double Of(double a, double, double) { return std::tanh(a); }
};

template <typename F, typename Op, bool kFlush, bool kSaturate>
uint16_t Lane(uint16_t a, uint16_t b, uint16_t c) {
  double value = Op::Of(Read<F, kFlush>(a), Read<F, kFlush>(b), Read<F, kFlush>(c));
  if (kSaturate) value = value > 0 ? std::min(value, 1.0) : 0;
  return FlushedBits<kFlush>(F::Rounded(value));
}
template <typename F, typename Op, int kLanes, int kSources, bool kFlush = false, bool kSaturate = false>
void Apply(uint64_t* r, const Instruction& i) {
  uint64_t result = 0;
  for (int lane = 0; lane < 16 * kLanes; lane += 16) {
    const auto source = [&](int n) { return n > kSources ? uint16_t{0} : static_cast<uint16_t>(r[i.at[n]] >> lane); };
    result |= uint64_t{Lane<F, Op, kFlush, kSaturate>(source(1), source(2), source(3))} << lane;
  }
  r[i.at[0]] = result;
}

// float32 whose first sources are of 16 bits.
template <typename F, bool kSubtract>
void MixedSum(uint64_t* r, const Instruction& i) {
  const auto a = static_cast<float>(F::Value(Source<uint16_t>(r, i, 1)));
  const float c = Source<float>(r, i, 2);
  r[i.at[0]] = Bits(kSubtract ? a - c : a + c);
}
template <typename F>
void MixedFma(uint64_t* r, const Instruction& i) {
  const auto a = static_cast<float>(F::Value(Source<uint16_t>(r, i, 1)));
  const auto b = static_cast<float>(F::Value(Source<uint16_t>(r, i, 2)));
  r[i.at[0]] = Bits(std::fma(a, b, Source<float>(r, i, 3)));
}

template <int kLanes, bool kAbsolute>
void Sign(uint64_t* r, const Instruction& i) {
  constexpr uint32_t kSigns = kLanes == 1 ? 0x8000 : 0x80008000;
  const uint32_t a = static_cast<uint32_t>(r[i.at[1]]);
  r[i.at[0]] = kAbsolute ? a & ~kSigns : a ^ kSigns;
}

template <typename F, int kLanes>
void AddType(AluTable& table, const std::string& type) {
  for (const char* rounding : {"", ".rn"}) {
    table[absl::StrCat("add", rounding, ".", type)] = {Apply<F, Add, kLanes, 2>, 3};
    table[absl::StrCat("sub", rounding, ".", type)] = {Apply<F, Sub, kLanes, 2>, 3};
    table[absl::StrCat("mul", rounding, ".", type)] = {Apply<F, Mul, kLanes, 2>, 3};
  }
  table["fma.rn." + type] = {Apply<F, Fma, kLanes, 3>, 4};
  table["fma.rn.relu." + type] = {Apply<F, FmaRelu, kLanes, 3>, 4};
  table["min." + type] = {Apply<F, Min, kLanes, 2>, 3};
  table["max." + type] = {Apply<F, Max, kLanes, 2>, 3};
  table["min.NaN." + type] = {Apply<F, OrNan<Min>, kLanes, 2>, 3};
  table["max.NaN." + type] = {Apply<F, OrNan<Max>, kLanes, 2>, 3};
  table["tanh.approx." + type] = {Apply<F, HyperbolicTangent, kLanes, 1>, 2};
  table["neg." + type] = {Sign<kLanes, false>, 2};
  table["abs." + type] = {Sign<kLanes, true>, 2};
}
template <typename F>
void AddMixed(AluTable& table, const std::string& type) {
  for (const char* rounding : {"", ".rn"}) {
    table[absl::StrCat("add", rounding, ".f32.", type)] = {MixedSum<F, false>, 3};
    table[absl::StrCat("sub", rounding, ".f32.", type)] = {MixedSum<F, true>, 3};
  }
  table["fma.rn.f32." + type] = {MixedFma<F>, 4};
}
template <int kLanes>
void AddHalfOnly(AluTable& table, const std::string& type) {
  for (const char* rounding : {"", ".rn"}) {
    table[absl::StrCat("add", rounding, ".ftz.", type)] = {Apply<Half, Add, kLanes, 2, true>, 3};
    table[absl::StrCat("sub", rounding, ".ftz.", type)] = {Apply<Half, Sub, kLanes, 2, true>, 3};
    table[absl::StrCat("mul", rounding, ".ftz.", type)] = {Apply<Half, Mul, kLanes, 2, true>, 3};
  }
  table["add.sat." + type] = {Apply<Half, Add, kLanes, 2, false, true>, 3};
  table["mul.sat." + type] = {Apply<Half, Mul, kLanes, 2, false, true>, 3};
  table["fma.rn.ftz." + type] = {Apply<Half, Fma, kLanes, 3, true>, 4};
  table["fma.rn.sat." + type] = {Apply<Half, Fma, kLanes, 3, false, true>, 4};
  table["ex2.approx." + type] = {Apply<Half, Exp2, kLanes, 1>, 2};
}

}  // namespace

double Half::Value(uint16_t bits) { return BitsToFloat(v1::FLOAT16, bits); }
uint16_t Half::Rounded(double value) {
  return std::isnan(value) ? kNan16 : static_cast<uint16_t>(FloatToBits(v1::FLOAT16, value));
}
double Brain::Value(uint16_t bits) { return static_cast<double>(std::bit_cast<float>(uint32_t{bits} << 16)); }
uint16_t Brain::Rounded(double value) {
  return std::isnan(value) ? kNan16 : static_cast<uint16_t>(FloatToBits(v1::BFLOAT16, value));
}

double SumToOdd(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - a;
  const double lost = (a - (sum - part)) + (b - part);  // exactly
  if (lost == 0) return sum;
  const uint64_t bits = std::bit_cast<uint64_t>(sum);
  if (bits & 1) return sum;
  // The exact sum is between this even number and the next odd one, on the side of what was lost.
  return std::bit_cast<double>((lost > 0) == (sum > 0) ? bits + 1 : bits - 1);
}

void AddHalves(AluTable& table) {
  AddType<Half, 1>(table, "f16");
  AddType<Half, 2>(table, "f16x2");
  AddType<Brain, 1>(table, "bf16");
  AddType<Brain, 2>(table, "bf16x2");
  AddMixed<Half>(table, "f16");
  AddMixed<Brain>(table, "bf16");
  AddHalfOnly<1>(table, "f16");
  AddHalfOnly<2>(table, "f16x2");
  table["ex2.approx.ftz.bf16"] = {Apply<Brain, Exp2, 1, 1>, 2};
  table["ex2.approx.ftz.bf16x2"] = {Apply<Brain, Exp2, 2, 1>, 2};
}

}  // namespace kiln::testing::ptx
