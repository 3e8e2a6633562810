// Comparisons and selections.
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tests/support/ptx/alu.h"

namespace kiln::testing::ptx {
namespace {

// What a comparison can come to, and which of that each name means.
enum Outcome : unsigned { kLess = 1, kEqual = 2, kGreater = 4, kUnordered = 8 };
struct Name {
  const char* name;
  unsigned outcomes;
};
constexpr Name kOfNumbers[] = {{"eq", kEqual},         {"ne", kLess | kGreater}, {"lt", kLess},
                               {"le", kLess | kEqual}, {"gt", kGreater},         {"ge", kGreater | kEqual}};
constexpr Name kOfUnsigned[] = {{"lo", kLess}, {"ls", kLess | kEqual}, {"hi", kGreater}, {"hs", kGreater | kEqual}};
constexpr Name kOfFloats[] = {{"equ", kEqual | kUnordered},       {"neu", kLess | kGreater | kUnordered},
                              {"ltu", kLess | kUnordered},        {"leu", kLess | kEqual | kUnordered},
                              {"gtu", kGreater | kUnordered},     {"geu", kGreater | kEqual | kUnordered},
                              {"num", kLess | kEqual | kGreater}, {"nan", kUnordered}};

struct Integers {
  template <typename T>
  static unsigned Of(T a, T b) {
    return a < b ? kLess : a == b ? kEqual : kGreater;
  }
};
struct Floats {
  template <typename T>
  static unsigned Of(T a, T b) {
    return std::isnan(a) || std::isnan(b) ? kUnordered : Integers::Of(a, b);
  }
};
struct Flushed {
  static float Of(float a) { return std::abs(a) < std::numeric_limits<float>::min() ? 0.0F : a; }
};
template <typename F>
struct Narrow {
  static unsigned Of(uint16_t a, uint16_t b) { return Floats::Of(F::Value(a), F::Value(b)); }
};
struct FlushedFloats {
  static unsigned Of(float a, float b) { return Floats::Of(Flushed::Of(a), Flushed::Of(b)); }
};

// How the outcome goes together with a third source; kept in Instruction::offset above the outcomes.
enum Combined : int64_t { kAlone, kAnd = 16, kOr = 32, kXor = 48, kCombinedMask = 48 };

bool With(bool outcome, const uint64_t* r, const Instruction& i) {
  const bool third = (r[i.at[3]] & 1) != 0;
  switch (i.offset & kCombinedMask) {
    case kAnd: return outcome && third;
    case kOr: return outcome || third;
    case kXor: return outcome != third;
    default: return outcome;
  }
}

// The result after '|' is that of the opposite comparison.
template <typename T, typename Compare>
void SetPredicate(uint64_t* r, const Instruction& i) {
  const bool is = (Compare::Of(Source<T>(r, i, 1), Source<T>(r, i, 2)) & i.offset) != 0;
  const bool result = With(is, r, i), opposite = With(!is, r, i);
  r[i.at[0]] = result ? 1 : 0;
  r[i.at[5]] = opposite ? 1 : 0;
}
template <typename T, typename Compare, uint32_t kTrue>
void SetValue(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = (Compare::Of(Source<T>(r, i, 1), Source<T>(r, i, 2)) & i.offset) != 0 ? kTrue : 0;
}
// Of the lower halves and, after '|', of the upper ones.
template <typename F>
void SetTwoPredicates(uint64_t* r, const Instruction& i) {
  const auto lane = [&](int shift) {
    return (Narrow<F>::Of(static_cast<uint16_t>(r[i.at[1]] >> shift), static_cast<uint16_t>(r[i.at[2]] >> shift)) &
            i.offset) != 0;
  };
  const bool low = lane(0), high = lane(16);
  r[i.at[0]] = low ? 1 : 0;
  r[i.at[5]] = high ? 1 : 0;
}

template <typename T, typename Compare>
void AddAll(AluTable& table, const std::string& type, absl::Span<const Name> names) {
  const size_t dot = type.rfind('.');
  const std::string flush = type.substr(0, dot), from = type.substr(dot);
  for (const Name& name : names) {
    const int64_t outcomes = name.outcomes;
    table[absl::StrCat("setp.", name.name, type)] = {SetPredicate<T, Compare>, 3, outcomes};
    table[absl::StrCat("setp.", name.name, ".and", type)] = {SetPredicate<T, Compare>, 4, outcomes | kAnd};
    table[absl::StrCat("setp.", name.name, ".or", type)] = {SetPredicate<T, Compare>, 4, outcomes | kOr};
    table[absl::StrCat("setp.", name.name, ".xor", type)] = {SetPredicate<T, Compare>, 4, outcomes | kXor};
    for (const char* to : {".u32", ".s32"})
      table[absl::StrCat("set.", name.name, flush, to, from)] = {SetValue<T, Compare, 0xffffffff>, 3, outcomes};
    table[absl::StrCat("set.", name.name, flush, ".f32", from)] = {SetValue<T, Compare, 0x3f800000>, 3, outcomes};
  }
}
template <typename T>
void AddUnsignedType(AluTable& table, const std::string& type) {
  AddAll<T, Integers>(table, type, kOfNumbers);
  AddAll<T, Integers>(table, type, kOfUnsigned);
}
template <typename T, typename Compare>
void AddFloatType(AluTable& table, const std::string& type) {
  AddAll<T, Compare>(table, type, kOfNumbers);
  AddAll<T, Compare>(table, type, kOfFloats);
}
template <typename F>
void AddPairs(AluTable& table, const std::string& type) {
  for (const absl::Span<const Name> names : {absl::Span<const Name>(kOfNumbers), absl::Span<const Name>(kOfFloats)}) {
    for (const Name& name : names)
      table[absl::StrCat("setp.", name.name, type)] = {SetTwoPredicates<F>, 3, name.outcomes};
  }
}

// Also of predicates, which are 0 or 1.
template <typename T>
void Select(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = static_cast<T>((r[i.at[3]] & 1) != 0 ? r[i.at[1]] : r[i.at[2]]);
}
template <typename T, typename C>
void SelectBySign(uint64_t* r, const Instruction& i) {
  r[i.at[0]] = static_cast<T>(Source<C>(r, i, 3) >= 0 ? r[i.at[1]] : r[i.at[2]]);
}
template <typename T>
void AddSelections(AluTable& table, int bits) {
  for (const char* kind : {"b", "u", "s", "f"}) {
    table[absl::StrCat("selp.", kind, bits)] = {Select<T>, 4};
    table[absl::StrCat("slct.", kind, bits, ".s32")] = {SelectBySign<T, int32_t>, 4};
    table[absl::StrCat("slct.", kind, bits, ".f32")] = {SelectBySign<T, float>, 4};
  }
}

}  // namespace

void AddComparisons(AluTable& table) {
  for (const char* sign : {".u", ".b"}) {
    AddUnsignedType<uint16_t>(table, absl::StrCat(sign, 16));
    AddUnsignedType<uint32_t>(table, absl::StrCat(sign, 32));
    AddUnsignedType<uint64_t>(table, absl::StrCat(sign, 64));
  }
  AddAll<int16_t, Integers>(table, ".s16", kOfNumbers);
  AddAll<int32_t, Integers>(table, ".s32", kOfNumbers);
  AddAll<int64_t, Integers>(table, ".s64", kOfNumbers);
  AddFloatType<float, Floats>(table, ".f32");
  AddFloatType<float, FlushedFloats>(table, ".ftz.f32");
  AddFloatType<double, Floats>(table, ".f64");
  AddFloatType<uint16_t, Narrow<Half>>(table, ".f16");
  AddFloatType<uint16_t, Narrow<Brain>>(table, ".bf16");
  AddPairs<Half>(table, ".f16x2");
  AddPairs<Brain>(table, ".bf16x2");
  AddSelections<uint16_t>(table, 16);
  AddSelections<uint32_t>(table, 32);
  AddSelections<uint64_t>(table, 64);
}

}  // namespace kiln::testing::ptx
