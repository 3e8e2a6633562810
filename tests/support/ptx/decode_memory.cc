// ld, st, atom, red, and what orders them.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/support/ptx/alu.h"
#include "tests/support/ptx/decode.h"

namespace kiln::testing::ptx {
namespace {

bool IsOneOf(absl::string_view word, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(), [&](const char* each) { return word == each; });
}

std::optional<Space> SpaceNamed(absl::string_view word) {
  if (word == "global") return Space::kGlobal;
  if (word == "const") return Space::kConst;
  if (IsOneOf(word, {"shared", "shared::cta"})) return Space::kShared;
  if (word == "local") return Space::kLocal;
  if (IsOneOf(word, {"param", "param::entry"})) return Space::kParam;
  return std::nullopt;
}

// Order, scope and caching: threads run in one order and see one memory, so these change nothing here.
bool ChangesNothing(absl::string_view word) {
  return IsOneOf(word, {"weak", "volatile", "relaxed", "acquire", "release", "acq_rel", "cta", "cluster", "gpu", "sys",
                        "ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc"}) ||
         absl::StartsWith(word, "L1::") || absl::StartsWith(word, "L2::");
}

Decoded LoadOrStore(FunctionDecoder& d, const std::vector<std::string>& words) {
  const bool load = words[0] != "st";
  Instruction i;
  i.kind = load ? Kind::kLoad : Kind::kStore;
  i.count = 1;
  for (size_t n = 1; n + 1 < words.size(); ++n) {
    if (const std::optional<Space> space = SpaceNamed(words[n])) {
      i.space = *space;
    } else if (IsOneOf(words[n], {"v2", "v4", "v8"})) {
      i.count = static_cast<uint8_t>(words[n][1] - '0');
    } else if (!ChangesNothing(words[n])) {
      return d.Fail(absl::StrCat("'.", words[n], "' is not known"));
    }
  }
  const std::optional<ScalarType> type = FindType(words.back());
  if (!type.has_value() || words.back() == "pred") return d.Fail("a type that is not known");
  i.bytes = static_cast<uint8_t>(type->bytes);
  i.is_signed = type->is_signed;
  KILN_RETURN_IF_ERROR(d.Count(2));
  KILN_ASSIGN_OR_RETURN(const auto address, d.Address(d.operand(load ? 1 : 0)));
  i.at[0] = address.first;
  i.offset = address.second;
  if (load) {
    KILN_ASSIGN_OR_RETURN(i.list, d.ResultList(d.operand(0), i.count));
    i.result_bits = d.BitsOf(d.operand(0));
  } else {
    KILN_ASSIGN_OR_RETURN(i.list, d.SourceList(d.operand(1), i.count));
  }
  return i;
}

Decoded AtomicUse(FunctionDecoder& d, const std::vector<std::string>& words) {
  const bool gives = words[0] == "atom";
  Instruction i;
  i.kind = Kind::kAtomic;
  i.at.fill(kTrueSlot);
  i.at[0] = kSinkSlot;
  std::string name;
  for (size_t n = 1; n < words.size(); ++n) {
    if (const std::optional<Space> space = SpaceNamed(words[n])) {
      i.space = *space;
    } else if (!ChangesNothing(words[n]) && words[n] != "noftz") {
      absl::StrAppend(&name, name.empty() ? "" : ".", words[n]);
    }
  }
  const std::optional<ScalarType> type = FindType(words.back());
  i.atomic = FindAtomic(name);
  if (!type.has_value() || i.atomic == nullptr) return d.Fail("an atomic that is not known");
  i.bytes = static_cast<uint8_t>(type->bytes);
  const size_t first = gives ? 1 : 0, sources = absl::StartsWith(name, "cas.") ? 2 : 1;
  KILN_RETURN_IF_ERROR(d.Count(first + 1 + sources));
  if (gives) {
    KILN_ASSIGN_OR_RETURN(i.at[0], d.Result(d.operand(0)));
  }
  KILN_ASSIGN_OR_RETURN(const auto address, d.Address(d.operand(first)));
  i.at[1] = address.first;
  i.offset = address.second;
  for (size_t n = 0; n < sources; ++n) {
    KILN_ASSIGN_OR_RETURN(i.at[2 + n], d.Source(d.operand(first + 1 + n)));
  }
  return i;
}

template <typename T, typename Change>
uint64_t Changed(char* place, uint64_t b, uint64_t c) {
  uint64_t before = 0;
  std::memcpy(&before, place, sizeof(T));
  const uint64_t after = Change::Of(As<T>(before), b, c);
  std::memcpy(place, &after, sizeof(T));
  return before;
}
struct Add {
  template <typename T>
  static uint64_t Of(T a, uint64_t b, uint64_t) {
    if constexpr (std::is_floating_point_v<T>) {
      return Bits<T>(a + As<T>(b));
    } else {
      return a + b;
    }
  }
};
template <typename F, int kLanes>
struct SumHalves {
  static uint64_t Of(uint32_t a, uint64_t b, uint64_t) {
    uint64_t sum = 0;
    for (int n = 0; n < 16 * kLanes; n += 16)
      sum |= uint64_t{F::Rounded(
                 SumToOdd(F::Value(static_cast<uint16_t>(a >> n)), F::Value(static_cast<uint16_t>(b >> n))))}
             << n;
    return sum;
  }
};
struct Exchange {
  template <typename T>
  static uint64_t Of(T, uint64_t b, uint64_t) {
    return b;
  }
};
struct CompareAndSwap {
  template <typename T>
  static uint64_t Of(T a, uint64_t b, uint64_t c) {
    return a == As<T>(b) ? c : static_cast<uint64_t>(a);
  }
};
struct Min {
  template <typename T>
  static uint64_t Of(T a, uint64_t b, uint64_t) {
    return Bits<T>(std::min(a, As<T>(b)));
  }
};
struct Max {
  template <typename T>
  static uint64_t Of(T a, uint64_t b, uint64_t) {
    return Bits<T>(std::max(a, As<T>(b)));
  }
};
struct And {
  template <typename T>
  static uint64_t Of(T a, uint64_t b, uint64_t) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static uint64_t Of(T a, uint64_t b, uint64_t) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static uint64_t Of(T a, uint64_t b, uint64_t) {
    return a ^ b;
  }
};
struct Increment {
  static uint64_t Of(uint32_t a, uint64_t b, uint64_t) { return a >= As<uint32_t>(b) ? 0 : a + 1; }
};
struct Decrement {
  static uint64_t Of(uint32_t a, uint64_t b, uint64_t) {
    return a == 0 || a > As<uint32_t>(b) ? As<uint32_t>(b) : a - 1;
  }
};

}  // namespace

Atomic FindAtomic(absl::string_view name) {
  struct Row {
    const char* name;
    Atomic atomic;
  };
  static constexpr Row kRows[] = {
      {"add.u32", Changed<uint32_t, Add>},
      {"add.s32", Changed<uint32_t, Add>},
      {"add.u64", Changed<uint64_t, Add>},
      {"add.s64", Changed<uint64_t, Add>},
      {"add.f32", Changed<float, Add>},
      {"add.f64", Changed<double, Add>},
      {"add.f16", Changed<uint16_t, SumHalves<Half, 1>>},
      {"add.bf16", Changed<uint16_t, SumHalves<Brain, 1>>},
      {"add.f16x2", Changed<uint32_t, SumHalves<Half, 2>>},
      {"add.bf16x2", Changed<uint32_t, SumHalves<Brain, 2>>},
      {"exch.b32", Changed<uint32_t, Exchange>},
      {"exch.b64", Changed<uint64_t, Exchange>},
      {"cas.b16", Changed<uint16_t, CompareAndSwap>},
      {"cas.b32", Changed<uint32_t, CompareAndSwap>},
      {"cas.b64", Changed<uint64_t, CompareAndSwap>},
      {"min.u32", Changed<uint32_t, Min>},
      {"max.u32", Changed<uint32_t, Max>},
      {"min.s32", Changed<int32_t, Min>},
      {"max.s32", Changed<int32_t, Max>},
      {"min.u64", Changed<uint64_t, Min>},
      {"max.u64", Changed<uint64_t, Max>},
      {"min.s64", Changed<int64_t, Min>},
      {"max.s64", Changed<int64_t, Max>},
      {"and.b32", Changed<uint32_t, And>},
      {"and.b64", Changed<uint64_t, And>},
      {"or.b32", Changed<uint32_t, Or>},
      {"or.b64", Changed<uint64_t, Or>},
      {"xor.b32", Changed<uint32_t, Xor>},
      {"xor.b64", Changed<uint64_t, Xor>},
      {"inc.u32", Changed<uint32_t, Increment>},
      {"dec.u32", Changed<uint32_t, Decrement>},
  };
  for (const Row& row : kRows) {
    if (name == row.name) return row.atomic;
  }
  return nullptr;
}

Decoded DecodeMemory(FunctionDecoder& d, const std::vector<std::string>& words) {
  const std::string& first = words[0];
  if (first == "ld" || first == "ldu" || first == "st") return LoadOrStore(d, words);
  if (first == "atom" || first == "red") return AtomicUse(d, words);
  if (!IsOneOf(first, {"membar", "fence", "prefetch", "prefetchu", "nanosleep"})) return std::nullopt;
  for (size_t n = 1; n < words.size(); ++n) {
    if (!ChangesNothing(words[n]) && !SpaceNamed(words[n]).has_value() &&
        !IsOneOf(words[n], {"sc", "gl", "L1", "L2", "u32", "proxy", "async", "alias", "mbarrier_init", "tensormap"}))
      return d.Fail(absl::StrCat("'.", words[n], "' is not known"));
  }
  Instruction i;
  i.kind = Kind::kNothing;
  if (words.size() > 2 && words[1] == "proxy" && words[2] == "async") i.kind = Kind::kProxyFence;
  if (words.size() > 1 && words[1] == "mbarrier_init") i.kind = Kind::kFenceMbarriers;
  return i;
}

}  // namespace kiln::testing::ptx
