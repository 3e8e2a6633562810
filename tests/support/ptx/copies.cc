// cp.async and mbarrier.
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "tests/support/ptx/decode.h"
#include "tests/support/ptx/group.h"

namespace kiln::testing::ptx {
namespace {

// cp.async.ca.shared.global [to], [from], bytes{, source bytes}
Decoded CopyOf(FunctionDecoder& d, const std::vector<std::string>& words) {
  if (words.size() < 5 || (words[2] != "ca" && words[2] != "cg") || !absl::StartsWith(words[3], "shared") ||
      words[4] != "global")
    return d.Fail("an opcode that is not known");
  for (size_t n = 5; n < words.size(); ++n) {
    if (!absl::StartsWith(words[n], "L2::")) return d.Fail("an opcode that is not known");
  }
  Instruction i;
  i.kind = Kind::kCopy;
  i.at.fill(kTrueSlot);
  if (d.operands() < 3 || d.operands() > 4) return d.Fail("takes 3 or 4 operands");
  KILN_ASSIGN_OR_RETURN(const auto to, d.Address(d.operand(0)));
  KILN_ASSIGN_OR_RETURN(const auto from, d.Address(d.operand(1)));
  i.at[0] = to.first;
  i.offset = to.second;
  i.at[1] = from.first;
  i.list = static_cast<uint32_t>(static_cast<int32_t>(from.second));
  const uint64_t bytes = d.operand(2).bits;
  const bool right = words[2] == "cg" ? bytes == 16 : bytes == 4 || bytes == 8 || bytes == 16;
  if (!right || d.operand(2).kind != Operand::Kind::kNumber) return d.Fail("copies 4, 8 or 16 bytes, .cg 16");
  i.bytes = static_cast<uint8_t>(bytes);
  if (d.operands() == 4) {
    KILN_ASSIGN_OR_RETURN(i.at[2], d.Source(d.operand(3)));
  }
  return i;
}

// An mbarrier is 8 bytes: the parity of its phase, arrivals and bytes that are still to come, and how
// many arrivals a phase takes. Hardware has another layout, which programs do not look at.
struct Mbarrier {
  uint8_t phase = 0;
  uint8_t initialized = 0;
  uint16_t count = 0, pending = 0;
  int16_t unused = 0;
};
static_assert(sizeof(Mbarrier) == 8);

Mbarrier Read(const char* place) {
  Mbarrier barrier;
  std::memcpy(&barrier, place, 8);
  return barrier;
}
constexpr uint8_t kInitialized = 0x5a;

bool Initialize(Group&, Thread& thread, const Instruction& i, char* place) {
  Mbarrier barrier;
  barrier.initialized = kInitialized;
  barrier.count = barrier.pending = static_cast<uint16_t>(thread.slots[i.at[2]]);
  std::memcpy(place, &barrier, 8);
  return true;
}
bool Invalidate(Group&, Thread&, const Instruction&, char* place) {
  std::memset(place, kUnwritten, 8);
  return true;
}
bool ArriveAt(Group& group, Thread& thread, const Instruction& i, char* place) {
  Mbarrier barrier = Read(place);
  if (barrier.initialized != kInitialized) return group.Fail(thread, "an mbarrier that is not initialized");
  const uint64_t arrivals = i.at[2] == kTrueSlot ? 1 : thread.slots[i.at[2]];
  if (arrivals > barrier.pending) return group.Fail(thread, "more arrivals than the mbarrier's phase takes");
  thread.slots[i.at[0]] = barrier.phase;  // the token of this phase
  barrier.pending = static_cast<uint16_t>(barrier.pending - arrivals);
  if (barrier.pending == 0) {
    barrier.phase ^= 1;
    barrier.pending = barrier.count;
    group.EndEpoch();
  }
  std::memcpy(place, &barrier, 8);
  return true;
}
// Whether the phase of a parity, or of a token, which is one, is over.
bool TestWait(Group& group, Thread& thread, const Instruction& i, char* place) {
  const Mbarrier barrier = Read(place);
  if (barrier.initialized != kInitialized) return group.Fail(thread, "an mbarrier that is not initialized");
  const bool over = (thread.slots[i.at[2]] & 1) != barrier.phase;
  thread.slots[i.at[0]] = over ? 1 : 0;
  return over;
}

Decoded MbarrierOf(FunctionDecoder& d, const std::vector<std::string>& words) {
  Instruction i;
  i.kind = Kind::kMbarrier;
  i.space = Space::kGeneric;
  i.at.fill(kTrueSlot);
  i.at[0] = kSinkSlot;
  std::vector<std::string> name;
  for (size_t n = 1; n < words.size(); ++n) {
    if (words[n] == "shared" || words[n] == "shared::cta") {
      i.space = Space::kShared;
    } else if (words[n] != "relaxed" && words[n] != "acquire" && words[n] != "release" && words[n] != "cta") {
      name.push_back(words[n]);
    }
  }
  const std::string what = absl::StrJoin(name, ".");
  size_t address = 0, most = 1;  // operands
  if (what == "init.b64") {
    i.barrier_use = Initialize, most = 2;
  } else if (what == "inval.b64") {
    i.barrier_use = Invalidate;
  } else if (what == "arrive.b64") {
    i.barrier_use = ArriveAt, address = 1, most = 3;
  } else if (what == "test_wait.b64" || what == "test_wait.parity.b64" || what == "try_wait.b64" ||
             what == "try_wait.parity.b64") {
    i.barrier_use = TestWait, address = 1, most = 4;  // the last is how long
  } else {
    return d.Fail("an opcode that is not known");
  }
  if (d.operands() <= address || d.operands() > most) return d.Fail("another number of operands");
  if (address == 1) {
    KILN_ASSIGN_OR_RETURN(i.at[0], d.Result(d.operand(0)));
  }
  KILN_ASSIGN_OR_RETURN(const auto place, d.Address(d.operand(address)));
  i.at[1] = place.first;
  i.offset = place.second;
  if (d.operands() > address + 1) {
    KILN_ASSIGN_OR_RETURN(i.at[2], d.Source(d.operand(address + 1)));
  }
  d.SayThatThreadsMeet();
  return i;
}

}  // namespace

Decoded DecodeAsync(FunctionDecoder& d, const std::vector<std::string>& words) {
  if (words[0] == "mbarrier") return MbarrierOf(d, words);
  if (words[0] != "cp" || words.size() < 3 || words[1] != "async") return std::nullopt;
  Instruction i;
  if (words[2] == "commit_group" && words.size() == 3) {
    KILN_RETURN_IF_ERROR(d.Count(0));
    i.kind = Kind::kCommitCopies;
    return i;
  }
  if (words[2] == "wait_all" && words.size() == 3) {
    KILN_RETURN_IF_ERROR(d.Count(0));
    i.kind = Kind::kWaitCopies;
    i.offset = -1;
    return i;
  }
  if (words[2] == "wait_group" && words.size() == 3) {
    KILN_RETURN_IF_ERROR(d.Count(1));
    if (d.operand(0).kind != Operand::Kind::kNumber) return d.Fail("a number of groups");
    i.kind = Kind::kWaitCopies;
    i.offset = static_cast<int64_t>(d.operand(0).bits);
    return i;
  }
  return CopyOf(d, words);
}

}  // namespace kiln::testing::ptx
