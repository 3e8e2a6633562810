#include "tests/support/ptx/mbarrier.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "base/error.h"
#include "tests/support/ptx/decode.h"

namespace kiln::testing::ptx {
namespace {

constexpr uint8_t kInitialized = 0x5a;
constexpr int64_t kMaxBytes = (int64_t{1} << 20) - 1;

Mbarrier Read(const char* place) {
  Mbarrier barrier;
  std::memcpy(&barrier, place, 8);
  return barrier;
}

bool Initialize(Group& group, Thread& thread, const Instruction& i, char* place) {
  Mbarrier barrier = {};
  barrier.mark = kInitialized;
  const uint64_t count = thread.slots[i.at[2]];
  if (count == 0 || count > 0xffff) return group.Fail(thread, "an mbarrier takes at least one arrival");
  barrier.count = barrier.pending = count & 0xffff;
  std::memcpy(place, &barrier, 8);
  thread.mbarriers.push_back(place);
  return true;
}
bool Invalidate(Group&, Thread&, const Instruction&, char* place) {
  std::memset(place, kUnwritten, 8);
  return true;
}

// The phase is over when all have arrived and all bytes are there.
void Settle(Group& group, Mbarrier barrier, char* place) {
  if (barrier.pending == 0 && barrier.bytes == 0) {
    barrier.phase ^= 1;
    barrier.pending = barrier.count;
    group.EndEpoch();
  }
  std::memcpy(place, &barrier, 8);
}

enum class What { kArrive, kExpect, kArriveAndExpect };

template <What kWhat>
bool ArriveAt(Group& group, Thread& thread, const Instruction& i, char* place) {
  Mbarrier barrier = Read(place);
  if (barrier.mark != kInitialized) return group.Fail(thread, "an mbarrier that is not initialized");
  const uint64_t operand = i.at[2] == kTrueSlot ? 1 : thread.slots[i.at[2]];
  if (kWhat != What::kArrive) {
    const int64_t bytes = barrier.bytes + static_cast<int64_t>(operand);
    if (bytes > kMaxBytes) return group.Fail(thread, "more bytes than an mbarrier counts");
    barrier.bytes = bytes;
  }
  const uint64_t arrivals = kWhat == What::kArrive ? operand : kWhat == What::kExpect ? 0 : 1;
  if (arrivals > barrier.pending) return group.Fail(thread, "more arrivals than the mbarrier's phase takes");
  thread.slots[i.at[0]] = barrier.phase;  // the token of this phase
  barrier.pending = (barrier.pending - arrivals) & 0xffff;
  Settle(group, barrier, place);
  return true;
}
// Whether the phase of a parity, or of a token, which is one, is over.
bool TestWait(Group& group, Thread& thread, const Instruction& i, char* place) {
  const Mbarrier barrier = Read(place);
  if (barrier.mark != kInitialized) return group.Fail(thread, "an mbarrier that is not initialized");
  const bool over = (thread.slots[i.at[2]] & 1) != barrier.phase;
  thread.slots[i.at[0]] = over ? 1 : 0;
  return over;
}

struct Row {
  const char* name;
  BarrierUse use;
  size_t address;  // which operand it is
  size_t least, most;
};
constexpr Row kRows[] = {
    {"init.b64", Initialize, 0, 2, 2},
    {"inval.b64", Invalidate, 0, 1, 1},
    {"arrive.b64", ArriveAt<What::kArrive>, 1, 2, 3},
    {"arrive.expect_tx.b64", ArriveAt<What::kArriveAndExpect>, 1, 3, 3},
    {"expect_tx.b64", ArriveAt<What::kExpect>, 0, 2, 2},
    // The last operand is how long.
    {"test_wait.b64", TestWait, 1, 3, 4},
    {"test_wait.parity.b64", TestWait, 1, 3, 4},
    {"try_wait.b64", TestWait, 1, 3, 4},
    {"try_wait.parity.b64", TestWait, 1, 3, 4},
};

}  // namespace

bool CheckMbarrierOfEngine(Group& group, Thread& thread, uint64_t address) {
  const char* place = group.Locate(thread, Space::kShared, address, 8, Use::kAtomic);
  if (place == nullptr) return false;
  const Mbarrier barrier = Read(place);
  if (barrier.mark != kInitialized) return group.Fail(thread, "an mbarrier that is not initialized");
  return barrier.fenced ||
         group.Fail(thread,
                    "an mbarrier whose initialization was not fenced: fence.mbarrier_init or fence.proxy.async");
}

bool BringBytes(Group& group, Thread& thread, uint64_t address, int64_t bytes) {
  char* place = group.Locate(thread, Space::kShared, address, 8, Use::kAtomic);
  if (place == nullptr) return false;
  Mbarrier barrier = Read(place);
  if (barrier.mark != kInitialized) return group.Fail(thread, "an mbarrier that is not initialized");
  const int64_t left = barrier.bytes - bytes;
  if (left < -kMaxBytes) return group.Fail(thread, "more bytes than an mbarrier counts");
  barrier.bytes = left;
  Settle(group, barrier, place);
  return true;
}

void FenceMbarriers(Group&, Thread& thread) {
  for (char* place : thread.mbarriers) {
    Mbarrier barrier = Read(place);
    barrier.fenced = 1;
    if (barrier.mark == kInitialized) std::memcpy(place, &barrier, 8);
  }
  thread.mbarriers.clear();
}

Decoded DecodeMbarrier(FunctionDecoder& d, const std::vector<std::string>& words) {
  if (words[0] != "mbarrier") return std::nullopt;
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
  for (const Row& row : kRows) {
    if (what != row.name) continue;
    if (d.operands() < row.least || d.operands() > row.most) return d.Fail("another number of operands");
    i.barrier_use = row.use;
    if (row.address == 1) {
      KILN_ASSIGN_OR_RETURN(i.at[0], d.Result(d.operand(0)));
    }
    KILN_ASSIGN_OR_RETURN(const auto place, d.Address(d.operand(row.address)));
    i.at[1] = place.first;
    i.offset = place.second;
    if (d.operands() > row.address + 1) {
      KILN_ASSIGN_OR_RETURN(i.at[2], d.Source(d.operand(row.address + 1)));
    }
    d.SayThatThreadsMeet();
    return i;
  }
  return d.Fail("an opcode that is not known");
}

}  // namespace kiln::testing::ptx
