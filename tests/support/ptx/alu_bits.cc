// Moves, logic, shifts, and fields of bits.
#include <bit>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/support/ptx/alu.h"

namespace kiln::testing::ptx {
namespace {

template <typename T>
void Move(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Source<T>(r, i, 1);
}
template <typename T>
void And(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = static_cast<T>(r[i.at[1]] & r[i.at[2]]);
}
template <typename T>
void Or(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = static_cast<T>(r[i.at[1]] | r[i.at[2]]);
}
template <typename T>
void Xor(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = static_cast<T>(r[i.at[1]] ^ r[i.at[2]]);
}
template <typename T>
void Not(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = static_cast<T>(~r[i.at[1]]);
}
template <typename T>
void CNot(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = Source<T>(r, i, 1) == 0 ? 1 : 0;
}
// A predicate is 0 or 1; as a number written out it may be -1.
void MovePredicate(uint64_t* r, const Instruction& i) { r[i.at[0]] = r[i.at[1]] & 1; }
void AndPredicates(uint64_t* r, const Instruction& i) { r[i.at[0]] = r[i.at[1]] & r[i.at[2]] & 1; }
void OrPredicates(uint64_t* r, const Instruction& i) { r[i.at[0]] = (r[i.at[1]] | r[i.at[2]]) & 1; }
void XorPredicates(uint64_t* r, const Instruction& i) { r[i.at[0]] = (r[i.at[1]] ^ r[i.at[2]]) & 1; }
void NotPredicate(uint64_t* r, const Instruction& i) { r[i.at[0]] = ~r[i.at[1]] & 1; }

// Distances are of 32 bits, and beyond the width as good as the width.
template <typename T>
void ShiftLeft(uint64_t* r, const Instruction& i) {
  const uint32_t by = Source<uint32_t>(r, i, 2);
  r[i.at[0]] = by >= 8 * sizeof(T) ? 0 : static_cast<T>(uint64_t{Source<T>(r, i, 1)} << by);
}
template <typename T>
void ShiftRight(uint64_t* r, const Instruction& i) {
  const uint32_t by = std::min<uint32_t>(Source<uint32_t>(r, i, 2), 8 * sizeof(T));
  const T a = Source<T>(r, i, 1);
  if (by == 8 * sizeof(T)) {
    r[i.at[0]] = Bits(a < 0 ? static_cast<T>(-1) : T{0});
  } else {
    r[i.at[0]] = Bits(static_cast<T>(a >> by));
  }
}
// Of two words side by side.
template <bool kLeft, bool kClamp>
void FunnelShift(uint64_t* r, const Instruction& i) {
  const uint64_t both = uint64_t{Source<uint32_t>(r, i, 2)} << 32 | Source<uint32_t>(r, i, 1);
  const uint32_t given = Source<uint32_t>(r, i, 3);
  const uint32_t by = kClamp ? std::min<uint32_t>(given, 32) : given & 31;
  r[i.at[0]] = static_cast<uint32_t>(kLeft ? (by == 0 ? both >> 32 : both >> (32 - by)) : both >> by);
}

template <typename T>
void Extract(uint64_t* r, const Instruction& i) {
  constexpr uint32_t kWidth = 8 * sizeof(T);
  const T a = Source<T>(r, i, 1);
  const uint32_t from = r[i.at[2]] & 0xff, length = r[i.at[3]] & 0xff;
  const auto bit = [&](uint32_t n) { return static_cast<uint64_t>(a >> std::min(n, kWidth - 1)) & 1; };
  const uint64_t sign = std::is_signed_v<T> && length > 0 ? bit(std::min(from + length - 1, kWidth - 1)) : 0;
  uint64_t field = 0;
  for (uint32_t n = 0; n < kWidth; ++n) field |= (n < length && from + n < kWidth ? bit(from + n) : sign) << n;
  r[i.at[0]] = field;
}
template <typename T>
void Insert(uint64_t* r, const Instruction& i) {
  constexpr uint32_t kWidth = 8 * sizeof(T);
  uint64_t into = Source<T>(r, i, 2);
  const uint32_t at = r[i.at[3]] & 0xff, length = r[i.at[4]] & 0xff;
  for (uint32_t n = 0; n < length && at + n < kWidth; ++n)
    into = (into & ~(uint64_t{1} << (at + n))) | (r[i.at[1]] >> n & 1) << (at + n);
  r[i.at[0]] = into;
}
// Each byte of the result is one of the eight of two words, or its sign.
void Permute(uint64_t* r, const Instruction& i) {
  const uint64_t both = uint64_t{Source<uint32_t>(r, i, 2)} << 32 | Source<uint32_t>(r, i, 1);
  const uint32_t which = Source<uint32_t>(r, i, 3);
  uint32_t result = 0;
  for (uint32_t n = 0; n < 4; ++n) {
    const uint32_t choice = which >> (4 * n) & 15;
    uint32_t byte = static_cast<uint32_t>(both >> (8 * (choice & 7))) & 0xff;
    if (choice & 8) byte = byte & 0x80 ? 0xff : 0;
    result |= byte << (8 * n);
  }
  r[i.at[0]] = result;
}
// A truth table of three bits: bit 4a + 2b + c of it.
void Logic3(uint64_t* r, const Instruction& i) {
  uint32_t result = 0;
  for (int n = 0; n < 32; ++n) {
    const uint32_t row =
        static_cast<uint32_t>((r[i.at[1]] >> n & 1) << 2 | (r[i.at[2]] >> n & 1) << 1 | (r[i.at[3]] >> n & 1));
    result |= static_cast<uint32_t>(r[i.at[4]] >> row & 1) << n;
  }
  r[i.at[0]] = result;
}
template <typename T>
void CountOnes(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = static_cast<uint64_t>(std::popcount(Source<T>(r, i, 1)));
}
template <typename T>
void CountLeadingZeros(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = static_cast<uint64_t>(std::countl_zero(Source<T>(r, i, 1)));
}
template <typename T>
void Reverse(uint64_t* r, const Instruction& i) {
  uint64_t result = 0;
  for (uint32_t n = 0; n < 8 * sizeof(T); ++n) result |= (r[i.at[1]] >> n & 1) << (8 * sizeof(T) - 1 - n);
  r[i.at[0]] = result;
}
// The place of the highest bit that is not the sign; as a distance to shift, with kShift.
template <typename T, bool kShift>
void FindHighest(uint64_t* r, const Instruction& i) {
  using U = std::make_unsigned_t<T>;
  const T a = Source<T>(r, i, 1);
  const U magnitude = static_cast<U>(a < 0 ? ~a : a);
  const int zeros = std::countl_zero(magnitude), width = 8 * static_cast<int>(sizeof(T));
  r[i.at[0]] = magnitude == 0 ? 0xffffffff : static_cast<uint32_t>(kShift ? zeros : width - 1 - zeros);
}

// mov.b64 %rd, {%r1, %r2}: the first is lowest.
template <typename Element, int kCount>
void Pack(uint64_t* r, const Instruction& i) {
  uint64_t all = 0;
  for (int n = 0; n < kCount; ++n) all |= uint64_t{Source<Element>(r, i, 1 + n)} << (8 * sizeof(Element) * n);
  r[i.at[0]] = all;
}
// mov.b64 {%r1, %r2}, %rd: operand 5 is what is taken apart.
template <typename Element, int kCount>
void Unpack(uint64_t* r, const Instruction& i) {
  const uint64_t all = r[i.at[5]];
  for (int n = 0; n < kCount; ++n) r[i.at[n]] = static_cast<Element>(all >> (8 * sizeof(Element) * n));
}

template <typename T, typename S>
void AddWidth(AluTable& table, int bits) {
  table[absl::StrCat("and.b", bits)] = {And<T>, 3};
  table[absl::StrCat("or.b", bits)] = {Or<T>, 3};
  table[absl::StrCat("xor.b", bits)] = {Xor<T>, 3};
  table[absl::StrCat("not.b", bits)] = {Not<T>, 2};
  table[absl::StrCat("cnot.b", bits)] = {CNot<T>, 2};
  table[absl::StrCat("shl.b", bits)] = {ShiftLeft<T>, 3};
  for (const char* sign : {"u", "b"}) table[absl::StrCat("shr.", sign, bits)] = {ShiftRight<T>, 3};
  table[absl::StrCat("shr.s", bits)] = {ShiftRight<S>, 3};
  for (const char* sign : {"u", "s", "b", "f"}) table[absl::StrCat("mov.", sign, bits)] = {Move<T>, 2};
  if constexpr (sizeof(T) > 2) {
    table[absl::StrCat("bfe.u", bits)] = {Extract<T>, 4};
    table[absl::StrCat("bfe.s", bits)] = {Extract<S>, 4};
    table[absl::StrCat("bfi.b", bits)] = {Insert<T>, 5};
    table[absl::StrCat("popc.b", bits)] = {CountOnes<T>, 2};
    table[absl::StrCat("clz.b", bits)] = {CountLeadingZeros<T>, 2};
    table[absl::StrCat("brev.b", bits)] = {Reverse<T>, 2};
    table[absl::StrCat("bfind.u", bits)] = {FindHighest<T, false>, 2};
    table[absl::StrCat("bfind.s", bits)] = {FindHighest<S, false>, 2};
    table[absl::StrCat("bfind.shiftamt.u", bits)] = {FindHighest<T, true>, 2};
    table[absl::StrCat("bfind.shiftamt.s", bits)] = {FindHighest<S, true>, 2};
  }
}

}  // namespace

void AddBits(AluTable& table) {
  AddWidth<uint16_t, int16_t>(table, 16);
  AddWidth<uint32_t, int32_t>(table, 32);
  AddWidth<uint64_t, int64_t>(table, 64);
  table["mov.bf16"] = {Move<uint16_t>, 2};
  table["mov.pred"] = {MovePredicate, 2};
  table["and.pred"] = {AndPredicates, 3};
  table["or.pred"] = {OrPredicates, 3};
  table["xor.pred"] = {XorPredicates, 3};
  table["not.pred"] = {NotPredicate, 2};
  table["shf.l.wrap.b32"] = {FunnelShift<true, false>, 4};
  table["shf.l.clamp.b32"] = {FunnelShift<true, true>, 4};
  table["shf.r.wrap.b32"] = {FunnelShift<false, false>, 4};
  table["shf.r.clamp.b32"] = {FunnelShift<false, true>, 4};
  table["prmt.b32"] = {Permute, 4};
  table["lop3.b32"] = {Logic3, 5};
  // The decoder names these by what they move: PTX writes them as mov.
  table["pack.2x8"] = {Pack<uint8_t, 2>, 3};
  table["pack.2x16"] = {Pack<uint16_t, 2>, 3};
  table["pack.2x32"] = {Pack<uint32_t, 2>, 3};
  table["pack.4x8"] = {Pack<uint8_t, 4>, 5};
  table["pack.4x16"] = {Pack<uint16_t, 4>, 5};
  table["unpack.2x8"] = {Unpack<uint8_t, 2>, 3};
  table["unpack.2x16"] = {Unpack<uint16_t, 2>, 3};
  table["unpack.2x32"] = {Unpack<uint32_t, 2>, 3};
  table["unpack.4x8"] = {Unpack<uint8_t, 4>, 5};
  table["unpack.4x16"] = {Unpack<uint16_t, 4>, 5};
}

}  // namespace kiln::testing::ptx
