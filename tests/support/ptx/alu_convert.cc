// cvt: between integers, between floats, and from each to the other.
#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/float_bits.h"
#include "tests/support/ptx/alu.h"

namespace kiln::testing::ptx {
namespace {

enum Mode : int64_t { kNearest, kToZero, kDown, kUp, kModeMask = 7, kFlush = 8, kSaturate = 16, kRelu = 32 };

struct F16 {
  static constexpr v1::DType kType = v1::FLOAT16;
  static constexpr uint64_t kNan = kNan16;
  static constexpr int kBits = 16;
  static constexpr const char* kName = "f16";
};
struct BF16 {
  static constexpr v1::DType kType = v1::BFLOAT16;
  static constexpr uint64_t kNan = kNan16;
  static constexpr int kBits = 16;
  static constexpr const char* kName = "bf16";
};
struct F32 {
  static constexpr v1::DType kType = v1::FLOAT32;
  static constexpr uint64_t kNan = kNan32;
  static constexpr int kBits = 32;
  static constexpr const char* kName = "f32";
};
struct F64 {
  static constexpr v1::DType kType = v1::FLOAT64;
  static constexpr uint64_t kNan = 0x7fffffffffffffff;
  static constexpr int kBits = 64;
  static constexpr const char* kName = "f64";
};

double Flushed(double value) { return std::abs(value) < 0x1p-126 ? std::copysign(0.0, value) : value; }

template <typename F>
double Read(uint64_t bits, int64_t mode) {
  const double value = BitsToFloat(F::kType, bits);
  return F::kBits == 32 && (mode & kFlush) ? Flushed(value) : value;
}

// `nearest` is what `exact` is rounded to nearest; one step from it there may be the one that `mode` asks for.
template <typename F>
uint64_t Directed(uint64_t nearest, long double exact, int64_t mode) {
  const long double got = BitsToFloat(F::kType, nearest);
  const bool toward_zero = (mode & kModeMask) == kToZero || ((mode & kModeMask) == kDown) == (exact > 0);
  if ((mode & kModeMask) == kNearest || got == exact || std::isnan(exact)) return nearest;
  const bool too_far = std::abs(got) > std::abs(exact);
  if (toward_zero) return too_far ? nearest - 1 : nearest;
  return too_far ? nearest : nearest + 1;
}

template <typename F>
uint64_t Written(double value, int64_t mode) {
  if (std::isnan(value) && (mode & kSaturate)) value = 0;
  if (std::isnan(value)) return F::kNan;
  if (mode & kSaturate) value = std::clamp(value, 0.0, 1.0);
  if ((mode & kRelu) && value < 0) value = 0;
  const uint64_t bits = Directed<F>(FloatToBits(F::kType, value), value, mode);
  if (F::kBits == 32 && (mode & kFlush)) return FloatToBits(F::kType, Flushed(BitsToFloat(F::kType, bits)));
  return bits;
}

template <typename To, typename From>
void FloatToFloat(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Written<To>(Read<From>(r[i.at[1]], i.offset), i.offset);
}

double Whole(double value, int64_t mode) {
  switch (mode & kModeMask) {
    case kToZero: return std::trunc(value);
    case kDown: return std::floor(value);
    case kUp: return std::ceil(value);
    default: return std::nearbyint(value);
  }
}
template <typename F>
void FloatToWholeFloat(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Written<F>(Whole(Read<F>(r[i.at[1]], i.offset), i.offset), i.offset & ~kModeMask);
}

// Zero- or sign-extended to the register's width.
template <typename T>
uint64_t Extended(T value, const Instruction& i) {
  const uint64_t all = static_cast<uint64_t>(static_cast<int64_t>(value));
  const uint64_t bits = std::is_signed_v<T> ? all : static_cast<uint64_t>(value);
  return i.result_bits >= 64 ? bits : bits & ((uint64_t{1} << i.result_bits) - 1);
}

// Always into the range of the result. NaN is 0; of float64, or as an integer of 64 bits, the highest bit alone.
template <typename T, typename From>
void FloatToInteger(uint64_t* r, const Instruction& i) {
  const double value = Read<From>(r[i.at[1]], i.offset);
  T result;
  if (std::isnan(value)) {
    const bool zero = From::kBits != 64 && sizeof(T) != 8;
    result = zero ? T{0} : static_cast<T>(uint64_t{1} << (8 * sizeof(T) - 1));
  } else {
    const double whole = Whole(value, i.offset);
    // The greatest T and one more is a power of two, so a double; the greatest itself may be none.
    const double beyond = std::ldexp(1.0, 8 * static_cast<int>(sizeof(T)) - (std::is_signed_v<T> ? 1 : 0));
    if (whole >= beyond) {
      result = std::numeric_limits<T>::max();
    } else if (whole < static_cast<double>(std::numeric_limits<T>::min())) {
      result = std::numeric_limits<T>::min();
    } else {
      result = static_cast<T>(whole);
    }
  }
  r[i.at[0]] = Extended(result, i);
}

template <typename To, typename T>
void IntegerToFloat(uint64_t* r, const Instruction& i) {
  const T value = Source<T>(r, i, 1);
  const uint64_t nearest = std::is_signed_v<T> ? SignedToFloatBits(To::kType, static_cast<int64_t>(value))
                                               : UnsignedToFloatBits(To::kType, static_cast<uint64_t>(value));
  r[i.at[0]] = i.offset & kSaturate ? FloatToBits(To::kType, value > 0 ? 1.0 : 0.0)
                                    : Directed<To>(nearest, static_cast<long double>(value), i.offset);
}

template <typename To, typename From>
void IntegerToInteger(uint64_t* r, const Instruction& i) {
  const From value = Source<From>(r, i, 1);
  if (i.offset & kSaturate) {
    const auto least = static_cast<__int128>(std::numeric_limits<To>::min());
    const auto most = static_cast<__int128>(std::numeric_limits<To>::max());
    r[i.at[0]] = Extended(static_cast<To>(std::clamp(static_cast<__int128>(value), least, most)), i);
  } else {
    r[i.at[0]] = Extended(static_cast<To>(value), i);
  }
}

// Two floats in one register; the first source is the upper one.
template <typename F>
void PackTwo(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Written<F>(Read<F32>(r[i.at[1]], 0), i.offset) << 16 | Written<F>(Read<F32>(r[i.at[2]], 0), i.offset);
}

template <v1::DType kType>
uint64_t Small(double value) {
  if (std::isnan(value)) return 0x7f;
  if (std::isinf(value)) value = std::copysign(1e30, value);
  return FloatToBits(kType, value) & 0xff;
}
template <v1::DType kType>
void PackTwoSmall(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Small<kType>(Read<F32>(r[i.at[1]], 0)) << 8 | Small<kType>(Read<F32>(r[i.at[2]], 0));
}
template <v1::DType kType>
void HalvesToSmall(uint64_t* r, const Instruction& i) {
  const uint64_t a = r[i.at[1]];
  r[i.at[0]] = Small<kType>(Read<F16>(a >> 16 & 0xffff, 0)) << 8 | Small<kType>(Read<F16>(a & 0xffff, 0));
}
template <v1::DType kType>
void SmallToHalves(uint64_t* r, const Instruction& i) {
  const uint64_t a = r[i.at[1]];
  r[i.at[0]] = Written<F16>(BitsToFloat(kType, a >> 8 & 0xff), i.offset) << 16 |
               Written<F16>(BitsToFloat(kType, a & 0xff), i.offset);
}

// tf32 is float32 whose low 13 bits are not looked at. kAway: ties away from zero, else to even.
template <bool kAway>
void ToTf32(uint64_t* r, const Instruction& i) {
  const uint32_t a = Source<uint32_t>(r, i, 1);
  if ((a & 0x7f800000) == 0x7f800000) {
    r[i.at[0]] = (a & 0x7fffff) != 0 ? kNan32 : a;
  } else {
    r[i.at[0]] = (a + (kAway ? 0x1000U : 0xfffU + (a >> 13 & 1))) & 0xffffe000U;
  }
}

struct Rounding {
  const char* name;
  int64_t mode;
};
constexpr Rounding kRoundings[] = {{".rn", kNearest}, {".rz", kToZero}, {".rm", kDown}, {".rp", kUp}};
constexpr Rounding kWholeRoundings[] = {{".rni", kNearest}, {".rzi", kToZero}, {".rmi", kDown}, {".rpi", kUp}};
constexpr Rounding kRanges[] = {{"", 0}, {".ftz", kFlush}, {".sat", kSaturate}, {".ftz.sat", kFlush | kSaturate}};

template <typename To, typename From>
void AddFloatPair(AluTable& table) {
  const std::string types = absl::StrCat(".", To::kName, ".", From::kName);
  for (const Rounding& range : kRanges) {
    // Widening is exact, and written without a rounding.
    if (To::kBits > From::kBits || (To::kBits == From::kBits && To::kType == From::kType))
      table[absl::StrCat("cvt", range.name, types)] = {FloatToFloat<To, From>, 2, range.mode};
    for (const Rounding& rounding : kRoundings)
      table[absl::StrCat("cvt", rounding.name, range.name, types)] = {FloatToFloat<To, From>, 2,
                                                                      rounding.mode | range.mode};
    if constexpr (To::kType == From::kType) {
      for (const Rounding& rounding : kWholeRoundings)
        table[absl::StrCat("cvt", rounding.name, range.name, types)] = {FloatToWholeFloat<To>, 2,
                                                                        rounding.mode | range.mode};
    }
  }
}
template <typename F, typename T>
void AddFloatAndInteger(AluTable& table, const std::string& type) {
  for (const Rounding& range : kRanges) {
    for (const Rounding& rounding : kWholeRoundings)
      table[absl::StrCat("cvt", rounding.name, range.name, ".", type, ".", F::kName)] = {FloatToInteger<T, F>, 2,
                                                                                         rounding.mode | range.mode};
    for (const Rounding& rounding : kRoundings)
      table[absl::StrCat("cvt", rounding.name, range.name, ".", F::kName, ".", type)] = {IntegerToFloat<F, T>, 2,
                                                                                         rounding.mode | range.mode};
  }
}
template <typename F>
void AddFloat(AluTable& table) {
  AddFloatPair<F16, F>(table);
  AddFloatPair<BF16, F>(table);
  AddFloatPair<F32, F>(table);
  AddFloatPair<F64, F>(table);
  AddFloatAndInteger<F, uint8_t>(table, "u8");
  AddFloatAndInteger<F, int8_t>(table, "s8");
  AddFloatAndInteger<F, uint16_t>(table, "u16");
  AddFloatAndInteger<F, int16_t>(table, "s16");
  AddFloatAndInteger<F, uint32_t>(table, "u32");
  AddFloatAndInteger<F, int32_t>(table, "s32");
  AddFloatAndInteger<F, uint64_t>(table, "u64");
  AddFloatAndInteger<F, int64_t>(table, "s64");
}

template <typename To, typename From>
void AddIntegerPair(AluTable& table, const std::string& to, const std::string& from) {
  table[absl::StrCat("cvt.", to, ".", from)] = {IntegerToInteger<To, From>, 2};
  table[absl::StrCat("cvt.sat.", to, ".", from)] = {IntegerToInteger<To, From>, 2, kSaturate};
}
template <typename From>
void AddInteger(AluTable& table, const std::string& from) {
  AddIntegerPair<uint8_t, From>(table, "u8", from);
  AddIntegerPair<int8_t, From>(table, "s8", from);
  AddIntegerPair<uint16_t, From>(table, "u16", from);
  AddIntegerPair<int16_t, From>(table, "s16", from);
  AddIntegerPair<uint32_t, From>(table, "u32", from);
  AddIntegerPair<int32_t, From>(table, "s32", from);
  AddIntegerPair<uint64_t, From>(table, "u64", from);
  AddIntegerPair<int64_t, From>(table, "s64", from);
}

template <v1::DType kType>
void AddSmall(AluTable& table, const std::string& name) {
  table["cvt.rn.satfinite." + name + "x2.f32"] = {PackTwoSmall<kType>, 3};
  table["cvt.rn.satfinite." + name + "x2.f16x2"] = {HalvesToSmall<kType>, 2};
  table["cvt.rn.f16x2." + name + "x2"] = {SmallToHalves<kType>, 2};
  table["cvt.rn.relu.f16x2." + name + "x2"] = {SmallToHalves<kType>, 2, kRelu};
}

}  // namespace

void AddConversions(AluTable& table) {
  AddFloat<F16>(table);
  AddFloat<BF16>(table);
  AddFloat<F32>(table);
  AddFloat<F64>(table);
  AddInteger<uint8_t>(table, "u8");
  AddInteger<int8_t>(table, "s8");
  AddInteger<uint16_t>(table, "u16");
  AddInteger<int16_t>(table, "s16");
  AddInteger<uint32_t>(table, "u32");
  AddInteger<int32_t>(table, "s32");
  AddInteger<uint64_t>(table, "u64");
  AddInteger<int64_t>(table, "s64");
  for (const Rounding& rounding : {kRoundings[0], kRoundings[1]}) {
    table[absl::StrCat("cvt", rounding.name, ".relu.f16.f32")] = {FloatToFloat<F16, F32>, 2, rounding.mode | kRelu};
    table[absl::StrCat("cvt", rounding.name, ".relu.bf16.f32")] = {FloatToFloat<BF16, F32>, 2, rounding.mode | kRelu};
    table[absl::StrCat("cvt", rounding.name, ".f16x2.f32")] = {PackTwo<F16>, 3, rounding.mode};
    table[absl::StrCat("cvt", rounding.name, ".bf16x2.f32")] = {PackTwo<BF16>, 3, rounding.mode};
    table[absl::StrCat("cvt", rounding.name, ".relu.f16x2.f32")] = {PackTwo<F16>, 3, rounding.mode | kRelu};
    table[absl::StrCat("cvt", rounding.name, ".relu.bf16x2.f32")] = {PackTwo<BF16>, 3, rounding.mode | kRelu};
  }
  AddSmall<v1::FLOAT8_E4M3>(table, "e4m3");
  AddSmall<v1::FLOAT8_E5M2>(table, "e5m2");
  table["cvt.rna.tf32.f32"] = {ToTf32<true>, 2};
  table["cvt.rn.tf32.f32"] = {ToTf32<false>, 2};
}

}  // namespace kiln::testing::ptx
