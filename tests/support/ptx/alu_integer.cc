// Integer arithmetic.
#include <algorithm>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "tests/support/ptx/alu.h"

namespace kiln::testing::ptx {
namespace {

template <typename T>
using Unsigned = std::make_unsigned_t<T>;
template <typename T>
using Wide =
    std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, int32_t, uint32_t>,
                       std::conditional_t<sizeof(T) == 4, std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
                                          std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>>;

// Unsigned, and of 64 bits: what wraps is defined, and nothing is promoted to int.
template <typename T>
uint64_t U(T value) {
  return static_cast<uint64_t>(static_cast<Unsigned<T>>(value));
}

struct Add {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(U(a) + U(b));
  }
};
struct Sub {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(U(a) - U(b));
  }
};
struct MulLow {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>(U(a) * U(b));
  }
};
struct MulHigh {
  template <typename T>
  static T Of(T a, T b) {
    return static_cast<T>((static_cast<Wide<T>>(a) * static_cast<Wide<T>>(b)) >> (8 * sizeof(T)));
  }
};
// The ISA does not say what a division by zero gives; all ones is what cards give. The least number by -1 wraps.
struct Div {
  template <typename T>
  static T Of(T a, T b) {
    if (b == 0) return static_cast<T>(~uint64_t{0});
    if constexpr (std::is_signed_v<T>) {
      if (b == T{-1}) return static_cast<T>(0 - U(a));
    }
    return static_cast<T>(a / b);
  }
};
struct Rem {
  template <typename T>
  static T Of(T a, T b) {
    if (b == 0) return a;
    if constexpr (std::is_signed_v<T>) {
      if (b == T{-1}) return 0;
    }
    return static_cast<T>(a % b);
  }
};
struct Min {
  template <typename T>
  static T Of(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <typename T>
  static T Of(T a, T b) {
    return std::max(a, b);
  }
};

template <typename T, typename Op>
void Binary(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Bits<T>(Op::Of(Source<T>(r, i, 1), Source<T>(r, i, 2)));
}
// Of both halves of 32 bits.
template <typename T, typename Op>
void Pairs(uint64_t* r, const Instruction& i) {
  const uint32_t a = Source<uint32_t>(r, i, 1), b = Source<uint32_t>(r, i, 2);
  const auto of = [](uint32_t x, uint32_t y) {
    return static_cast<uint16_t>(Op::Of(static_cast<T>(x), static_cast<T>(y)));
  };
  r[i.at[0]] = of(a & 0xffff, b & 0xffff) | static_cast<uint32_t>(of(a >> 16, b >> 16)) << 16;
}
// a * b + c of the low or high half.
template <typename T, typename Op>
void Mad(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Bits<T>(Add::Of(Op::Of(Source<T>(r, i, 1), Source<T>(r, i, 2)), Source<T>(r, i, 3)));
}
template <typename T>
void MulWide(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Bits(static_cast<Wide<T>>(static_cast<Wide<T>>(Source<T>(r, i, 1)) * Source<T>(r, i, 2)));
}
template <typename T>
void MadWide(uint64_t* r, const Instruction& i) {
  const auto product = static_cast<Wide<T>>(static_cast<Wide<T>>(Source<T>(r, i, 1)) * Source<T>(r, i, 2));
  r[i.at[0]] = Bits(Add::Of(product, Source<Wide<T>>(r, i, 3)));
}
template <typename T>
void Negated(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Bits(Sub::Of(T{0}, Source<T>(r, i, 1)));
}
template <typename T>
void Absolute(uint64_t* r, const Instruction& i) {
  const T a = Source<T>(r, i, 1);
  r[i.at[0]] = Bits(a < 0 ? Sub::Of(T{0}, a) : a);
}
template <typename T>
void SumOfDifference(uint64_t* r, const Instruction& i) {
  const T a = Source<T>(r, i, 1), b = Source<T>(r, i, 2);
  r[i.at[0]] = Bits(Add::Of(a < b ? Sub::Of(b, a) : Sub::Of(a, b), Source<T>(r, i, 3)));
}
void AddSaturated(uint64_t* r, const Instruction& i) {
  const int64_t sum = int64_t{Source<int32_t>(r, i, 1)} + Source<int32_t>(r, i, 2);
  r[i.at[0]] = Bits(static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX)));
}
void SubSaturated(uint64_t* r, const Instruction& i) {
  const int64_t sum = int64_t{Source<int32_t>(r, i, 1)} - Source<int32_t>(r, i, 2);
  r[i.at[0]] = Bits(static_cast<int32_t>(std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX)));
}

// With the carry, or borrow, of the instruction before, and one for the next.
template <typename T, bool kSubtract, bool kTakes, bool kGives>
void WithCarry(uint64_t* r, const Instruction& i) {
  using W = Wide<T>;
  const W a = Source<T>(r, i, 1), b = Source<T>(r, i, 2), carry = kTakes ? static_cast<W>(r[kCarrySlot]) : W{0};
  const W all = kSubtract ? a - b - carry : a + b + carry;
  r[i.at[0]] = Bits(static_cast<T>(all));
  if (kGives) r[kCarrySlot] = static_cast<uint64_t>(all >> (8 * sizeof(T))) & 1;
}
// The low or the high half of a product, and a third.
template <typename T, typename Half, bool kTakes, bool kGives>
void MadWithCarry(uint64_t* r, const Instruction& i) {
  using W = Wide<T>;
  const T product = Half::Of(Source<T>(r, i, 1), Source<T>(r, i, 2));
  const W all = static_cast<W>(product) + Source<T>(r, i, 3) + (kTakes ? static_cast<W>(r[kCarrySlot]) : W{0});
  r[i.at[0]] = Bits(static_cast<T>(all));
  if (kGives) r[kCarrySlot] = static_cast<uint64_t>(all >> (8 * sizeof(T))) & 1;
}
template <typename T, typename Half>
void AddMadCarries(AluTable& table, const std::string& half, const std::string& type) {
  table["mad." + half + ".cc." + type] = {MadWithCarry<T, Half, false, true>, 4};
  table["madc." + half + "." + type] = {MadWithCarry<T, Half, true, false>, 4};
  table["madc." + half + ".cc." + type] = {MadWithCarry<T, Half, true, true>, 4};
}
template <typename T>
void AddCarries(AluTable& table, const std::string& type) {
  table["add.cc." + type] = {WithCarry<T, false, false, true>, 3};
  table["addc." + type] = {WithCarry<T, false, true, false>, 3};
  table["addc.cc." + type] = {WithCarry<T, false, true, true>, 3};
  table["sub.cc." + type] = {WithCarry<T, true, false, true>, 3};
  table["subc." + type] = {WithCarry<T, true, true, false>, 3};
  table["subc.cc." + type] = {WithCarry<T, true, true, true>, 3};
}

// Four products of bytes, or two of halves and bytes, and a sum.
template <typename A, typename B>
void Dp4a(uint64_t* r, const Instruction& i) {
  const uint32_t a = Source<uint32_t>(r, i, 1), b = Source<uint32_t>(r, i, 2);
  uint32_t sum = Source<uint32_t>(r, i, 3);
  for (int lane = 0; lane < 32; lane += 8)
    sum += static_cast<uint32_t>(int32_t{static_cast<A>(a >> lane)} * int32_t{static_cast<B>(b >> lane)});
  r[i.at[0]] = sum;
}

// Two products of halves, and of the lower or the upper two bytes.
template <typename A, typename B, int kFirst>
void Dp2a(uint64_t* r, const Instruction& i) {
  const uint32_t a = Source<uint32_t>(r, i, 1), b = Source<uint32_t>(r, i, 2);
  uint32_t sum = Source<uint32_t>(r, i, 3);
  for (int lane = 0; lane < 2; ++lane) {
    const int64_t half = static_cast<A>(a >> 16 * lane), byte = static_cast<B>(b >> 8 * (kFirst + lane));
    sum += static_cast<uint32_t>(half * byte);
  }
  r[i.at[0]] = sum;
}
template <typename A, typename B>
void AddDp2a(AluTable& table, const std::string& types) {
  table["dp2a.lo." + types] = {Dp2a<A, B, 0>, 4};
  table["dp2a.hi." + types] = {Dp2a<A, B, 2>, 4};
}

template <typename T>
void AddType(AluTable& table, const std::string& type) {
  table["add." + type] = {Binary<T, Add>, 3};
  table["sub." + type] = {Binary<T, Sub>, 3};
  table["mul.lo." + type] = {Binary<T, MulLow>, 3};
  table["mul.hi." + type] = {Binary<T, MulHigh>, 3};
  table["mad.lo." + type] = {Mad<T, MulLow>, 4};
  table["mad.hi." + type] = {Mad<T, MulHigh>, 4};
  table["div." + type] = {Binary<T, Div>, 3};
  table["rem." + type] = {Binary<T, Rem>, 3};
  table["min." + type] = {Binary<T, Min>, 3};
  table["max." + type] = {Binary<T, Max>, 3};
  table["sad." + type] = {SumOfDifference<T>, 4};
  if constexpr (sizeof(T) < 8) {
    table["mul.wide." + type] = {MulWide<T>, 3};
    table["mad.wide." + type] = {MadWide<T>, 4};
  }
  if constexpr (std::is_signed_v<T>) {
    table["neg." + type] = {Negated<T>, 2};
    table["abs." + type] = {Absolute<T>, 2};
  }
}

}  // namespace

void AddIntegers(AluTable& table) {
  AddType<uint16_t>(table, "u16");
  AddType<uint32_t>(table, "u32");
  AddType<uint64_t>(table, "u64");
  AddType<int16_t>(table, "s16");
  AddType<int32_t>(table, "s32");
  AddType<int64_t>(table, "s64");
  AddMadCarries<uint32_t, MulLow>(table, "lo", "u32");
  AddMadCarries<uint32_t, MulHigh>(table, "hi", "u32");
  AddMadCarries<uint64_t, MulLow>(table, "lo", "u64");
  AddMadCarries<uint64_t, MulHigh>(table, "hi", "u64");
  for (const char* sign : {"u", "s", "b"}) {
    AddCarries<uint32_t>(table, absl::StrCat(sign, 32));
    AddCarries<uint64_t>(table, absl::StrCat(sign, 64));
  }
  table["add.u16x2"] = {Pairs<uint16_t, Add>, 3};
  table["add.s16x2"] = {Pairs<int16_t, Add>, 3};
  table["min.u16x2"] = {Pairs<uint16_t, Min>, 3};
  table["min.s16x2"] = {Pairs<int16_t, Min>, 3};
  table["max.u16x2"] = {Pairs<uint16_t, Max>, 3};
  table["max.s16x2"] = {Pairs<int16_t, Max>, 3};
  table["add.sat.s32"] = {AddSaturated, 3};
  table["sub.sat.s32"] = {SubSaturated, 3};
  AddDp2a<uint16_t, uint8_t>(table, "u32.u32");
  AddDp2a<uint16_t, int8_t>(table, "u32.s32");
  AddDp2a<int16_t, uint8_t>(table, "s32.u32");
  AddDp2a<int16_t, int8_t>(table, "s32.s32");
  table["dp4a.u32.u32"] = {Dp4a<uint8_t, uint8_t>, 4};
  table["dp4a.u32.s32"] = {Dp4a<uint8_t, int8_t>, 4};
  table["dp4a.s32.u32"] = {Dp4a<int8_t, uint8_t>, 4};
  table["dp4a.s32.s32"] = {Dp4a<int8_t, int8_t>, 4};
}

}  // namespace kiln::testing::ptx
