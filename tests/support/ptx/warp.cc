// What lanes of a warp do together, and barriers of the group.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/support/ptx/alu.h"
#include "tests/support/ptx/decode.h"
#include "tests/support/ptx/group.h"

namespace kiln::testing::ptx {
namespace {

uint32_t MaskOf(const Lanes& lanes) {
  uint32_t mask = 0;
  for (uint32_t n = 0; n < 32; ++n) mask |= lanes[n] == nullptr ? 0U : 1U << n;
  return mask;
}

enum class Shuffle { kUp, kDown, kButterfly, kIndex };

// Operand 1 is the value, 2 says of which lane, 3 holds the ends of segments and a clamp.
template <Shuffle kHow>
bool Shuffled(Group& group, const Lanes& lanes, const Instruction& i) {
  std::array<uint64_t, 32> values = {};
  for (size_t n = 0; n < 32; ++n) values[n] = lanes[n] == nullptr ? 0 : lanes[n]->slots[i.at[1]];
  for (int n = 0; n < 32; ++n) {
    Thread* thread = lanes[static_cast<size_t>(n)];
    if (thread == nullptr) continue;
    const int by = static_cast<int>(thread->slots[i.at[2]] & 31), c = static_cast<int>(thread->slots[i.at[3]]);
    const int clamp = c & 31, segment = c >> 8 & 31;
    const int last = (n & segment) | (clamp & ~segment), first = n & segment;
    int from = 0;
    bool inside = false;
    switch (kHow) {
      case Shuffle::kUp: from = n - by, inside = from >= last; break;
      case Shuffle::kDown: from = n + by, inside = from <= last; break;
      case Shuffle::kButterfly: from = n ^ by, inside = from <= last; break;
      case Shuffle::kIndex: from = first | (by & ~segment), inside = from <= last; break;
    }
    if (!inside) from = n;
    if (lanes[static_cast<size_t>(from)] == nullptr)
      return group.Fail(*thread, absl::StrCat("takes the value of lane ", from, ", which does not take part"));
    thread->slots[i.at[0]] = values[static_cast<size_t>(from)] & 0xffffffff;
    thread->slots[i.at[5]] = inside ? 1 : 0;
  }
  return true;
}

enum class Vote { kAll, kAny, kUniform, kBallot };

template <Vote kVote>
bool Voted(Group&, const Lanes& lanes, const Instruction& i) {
  const uint32_t mask = MaskOf(lanes);
  uint32_t yes = 0;
  for (size_t n = 0; n < 32; ++n) {
    if (lanes[n] != nullptr && (lanes[n]->slots[i.at[1]] & 1) != static_cast<uint64_t>(i.offset)) yes |= 1U << n;
  }
  uint64_t result = 0;
  switch (kVote) {
    case Vote::kAll: result = yes == mask ? 1 : 0; break;
    case Vote::kAny: result = yes != 0 ? 1 : 0; break;
    case Vote::kUniform: result = yes == mask || yes == 0 ? 1 : 0; break;
    case Vote::kBallot: result = yes; break;
  }
  for (Thread* thread : lanes) {
    if (thread != nullptr) thread->slots[i.at[0]] = result;
  }
  return true;
}

template <typename T, T (*kCombine)(T, T)>
bool Reduced(Group&, const Lanes& lanes, const Instruction& i) {
  bool first = true;
  T all{};
  for (const Thread* thread : lanes) {
    if (thread == nullptr) continue;
    const T value = As<T>(thread->slots[i.at[1]]);
    all = first ? value : kCombine(all, value);
    first = false;
  }
  for (Thread* thread : lanes) {
    if (thread != nullptr) thread->slots[i.at[0]] = Bits<T>(all);
  }
  return true;
}
template <typename T>
T Sum(T a, T b) {
  return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}
template <typename T>
T Least(T a, T b) {
  return std::min(a, b);
}
template <typename T>
T Greatest(T a, T b) {
  return std::max(a, b);
}
uint32_t And(uint32_t a, uint32_t b) { return a & b; }
uint32_t Or(uint32_t a, uint32_t b) { return a | b; }
uint32_t Xor(uint32_t a, uint32_t b) { return a ^ b; }

// For each lane, those that hold the same as it.
bool Matched(Group&, const Lanes& lanes, const Instruction& i) {
  for (Thread* thread : lanes) {
    if (thread == nullptr) continue;
    uint32_t same = 0;
    for (size_t n = 0; n < 32; ++n) {
      if (lanes[n] != nullptr && lanes[n]->slots[i.at[1]] == thread->slots[i.at[1]]) same |= 1U << n;
    }
    thread->slots[i.at[0]] = same;
  }
  return true;
}

bool Elected(Group&, const Lanes& lanes, const Instruction& i) {
  const uint32_t leader = static_cast<uint32_t>(std::countr_zero(MaskOf(lanes)));
  for (uint32_t n = 0; n < 32; ++n) {
    if (lanes[n] == nullptr) continue;
    lanes[n]->slots[i.at[0]] = leader;
    lanes[n]->slots[i.at[5]] = n == leader ? 1 : 0;
  }
  return true;
}

bool Synchronized(Group&, const Lanes&, const Instruction&) { return true; }

struct Row {
  const char* opcode;
  Collective collective;
  size_t operands;  // the mask included, which is the last
};
constexpr Row kRows[] = {
    {"shfl.sync.up.b32", Shuffled<Shuffle::kUp>, 5},
    {"shfl.sync.down.b32", Shuffled<Shuffle::kDown>, 5},
    {"shfl.sync.bfly.b32", Shuffled<Shuffle::kButterfly>, 5},
    {"shfl.sync.idx.b32", Shuffled<Shuffle::kIndex>, 5},
    {"vote.sync.all.pred", Voted<Vote::kAll>, 3},
    {"vote.sync.any.pred", Voted<Vote::kAny>, 3},
    {"vote.sync.uni.pred", Voted<Vote::kUniform>, 3},
    {"vote.sync.ballot.b32", Voted<Vote::kBallot>, 3},
    {"redux.sync.add.u32", Reduced<uint32_t, Sum<uint32_t>>, 3},
    {"redux.sync.add.s32", Reduced<int32_t, Sum<int32_t>>, 3},
    {"redux.sync.min.u32", Reduced<uint32_t, Least<uint32_t>>, 3},
    {"redux.sync.min.s32", Reduced<int32_t, Least<int32_t>>, 3},
    {"redux.sync.max.u32", Reduced<uint32_t, Greatest<uint32_t>>, 3},
    {"redux.sync.max.s32", Reduced<int32_t, Greatest<int32_t>>, 3},
    {"redux.sync.and.b32", Reduced<uint32_t, And>, 3},
    {"redux.sync.or.b32", Reduced<uint32_t, Or>, 3},
    {"redux.sync.xor.b32", Reduced<uint32_t, Xor>, 3},
    {"match.any.sync.b32", Matched, 3},
    {"match.any.sync.b64", Matched, 3},
    {"elect.sync", Elected, 2},
    {"bar.warp.sync", Synchronized, 1},
};

Decoded Barrier(FunctionDecoder& d, const std::vector<std::string>& words, const std::string& opcode) {
  Instruction i;
  i.at.fill(kTrueSlot);
  // "bar" is "barrier.cta….aligned".
  i.aligned = words[0] == "bar" || words.back() == "aligned";
  std::string name = opcode;
  for (const char* variant : {"bar.cta.", "barrier.cta.", "barrier.", "bar."}) {
    if (name.compare(0, std::string(variant).size(), variant) != 0) continue;
    name = name.substr(std::string(variant).size());
    break;
  }
  if (name == "sync" || name == "sync.aligned") {
    i.kind = Kind::kBarrier;
  } else if (name == "arrive" || name == "arrive.aligned") {
    i.kind = Kind::kArrive;
  } else {
    return d.Fail("an opcode that is not known");
  }
  if (d.operands() < 1 || d.operands() > 2 || (i.kind == Kind::kArrive && d.operands() != 2))
    return d.Fail("a barrier's number and count");
  KILN_ASSIGN_OR_RETURN(i.at[0], d.Source(d.operand(0)));
  if (d.operands() == 2) {
    KILN_ASSIGN_OR_RETURN(i.at[1], d.Source(d.operand(1)));
  }
  d.SayThatThreadsMeet();
  return i;
}

}  // namespace

Decoded DecodeWarp(FunctionDecoder& d, const std::vector<std::string>& words) {
  std::string opcode = words[0];
  for (size_t n = 1; n < words.size(); ++n) absl::StrAppend(&opcode, ".", words[n]);
  for (const Row& row : kRows) {
    if (opcode != row.opcode) continue;
    KILN_RETURN_IF_ERROR(d.Count(row.operands));
    Instruction i;
    i.kind = Kind::kWarp;
    i.collective = row.collective;
    i.at.fill(kSinkSlot);
    if (row.operands > 1) {
      KILN_ASSIGN_OR_RETURN(i.at[0], d.Result(d.operand(0)));
      if (!d.operand(0).second.empty()) {
        KILN_ASSIGN_OR_RETURN(i.at[5], d.Result(d.operand(0).second[0]));
      }
    }
    for (size_t n = 1; n + 1 < row.operands; ++n) {
      Operand source = d.operand(n);
      i.offset = source.negated ? 1 : 0;
      source.negated = false;
      KILN_ASSIGN_OR_RETURN(i.at[n], d.Source(source));
    }
    KILN_ASSIGN_OR_RETURN(i.at[4], d.Source(d.operand(row.operands - 1)));
    d.SayThatThreadsMeet();
    return i;
  }
  if (words[0] == "bar" || words[0] == "barrier") return Barrier(d, words, opcode);
  return std::nullopt;
}

}  // namespace kiln::testing::ptx
