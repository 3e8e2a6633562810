// Threads run, one after the other, each as far as it can get alone.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/support/ptx/group.h"
#include "tests/support/ptx/mbarrier.h"

namespace kiln::testing::ptx {
namespace {

std::array<uint32_t, 3> ItemOf(const Group& group, uint32_t number) {
  const auto& items = group.shape->items;
  return {number % items[0], number / items[0] % items[1], number / items[0] / items[1]};
}

std::string Coordinates(const std::array<uint32_t, 3>& c) { return absl::StrFormat("(%d, %d, %d)", c[0], c[1], c[2]); }

bool Load(Group& group, Thread& thread, const Instruction& i) {
  const uint64_t address = thread.slots[i.at[0]] + static_cast<uint64_t>(i.offset);
  const char* place = group.Locate(thread, i.space, address, uint32_t{i.bytes} * i.count, Use::kRead);
  if (place == nullptr) return false;
  const uint32_t* to = group.function->lists.data() + i.list;
  for (int n = 0; n < i.count; ++n, place += i.bytes) {
    uint64_t value = 0;
    std::memcpy(&value, place, i.bytes);
    if (i.is_signed) {
      const int shift = 64 - 8 * i.bytes;
      value = static_cast<uint64_t>(static_cast<int64_t>(value << shift) >> shift);
      if (i.result_bits < 64) value &= (uint64_t{1} << i.result_bits) - 1;
    }
    thread.slots[to[n]] = value;
  }
  return true;
}

bool Store(Group& group, Thread& thread, const Instruction& i) {
  const uint64_t address = thread.slots[i.at[0]] + static_cast<uint64_t>(i.offset);
  char* place = group.Locate(thread, i.space, address, uint32_t{i.bytes} * i.count, Use::kWrite);
  if (place == nullptr) return false;
  const uint32_t* from = group.function->lists.data() + i.list;
  for (int n = 0; n < i.count; ++n, place += i.bytes) std::memcpy(place, &thread.slots[from[n]], i.bytes);
  return true;
}

bool ChangeAtomically(Group& group, Thread& thread, const Instruction& i) {
  const uint64_t address = thread.slots[i.at[1]] + static_cast<uint64_t>(i.offset);
  char* place = group.Locate(thread, i.space, address, i.bytes, Use::kAtomic);
  if (place == nullptr) return false;
  thread.slots[i.at[0]] = i.atomic(place, thread.slots[i.at[2]], thread.slots[i.at[3]]);
  return true;
}

// Counts the thread; true if it need not wait.
bool Arrive(Group& group, Thread& thread, const Instruction& i) {
  const uint64_t barrier = thread.slots[i.at[0]], count = i.at[1] == kTrueSlot ? 0 : thread.slots[i.at[1]];
  const auto all = static_cast<uint32_t>(group.threads.size());
  if (barrier >= group.arrived.size()) return group.Fail(thread, "there are 16 barriers");
  if (count % 32 != 0) return group.Fail(thread, "a barrier's count is in whole warps");
  thread.barrier = static_cast<uint32_t>(barrier);
  thread.barrier_count = count == 0 ? all : static_cast<uint32_t>(count);
  ++group.arrived[barrier];
  thread.state = Thread::State::kAtBarrier;
  return true;
}

}  // namespace

bool Group::Fail(const Thread& thread, absl::string_view what) {
  return Fail(thread, absl::StatusCode::kInternal, what);
}
bool Group::Fail(const Thread& thread, absl::StatusCode code, absl::string_view what) {
  failure = absl::Status(
      code, absl::StrCat("kernel ", function->entry.name, ", group ", Coordinates(number), ", item ",
                         Coordinates(ItemOf(*this, thread.number)), ": `", function->texts[thread.pc], "`: ", what));
  return false;
}

void Group::EndEpoch() {
  races.EndEpoch();
  global_races.races().EndEpoch();
}
void Group::EndWarpEpoch(uint32_t warp) {
  races.EndWarpEpoch(warp);
  global_races.races().EndWarpEpoch(warp);
}

void BeginGroup(Group& group, const std::array<uint32_t, 3>& number) {
  const Function& function = *group.function;
  group.number = number;
  std::fill(group.shared.begin(), group.shared.end(), kUnwritten);
  std::fill(group.local.begin(), group.local.end(), kUnwritten);
  group.arrived.fill(0);
  group.bulk_copies.clear();
  group.warp_groups.assign(group.threads.size() / 128, {});
  group.proxies.Begin(function.has_engines ? group.shared.size() : 0, group.threads.size());
  group.races.BeginGroup(static_cast<uint32_t>(group.threads.size()));
  group.global_races.races().BeginGroup(static_cast<uint32_t>(group.threads.size()));
  const uint32_t warps = static_cast<uint32_t>(group.threads.size() + 31) / 32;
  for (size_t n = 0; n < group.threads.size(); ++n) {
    Thread& thread = group.threads[n];
    thread.state = Thread::State::kRuns;
    thread.number = static_cast<uint32_t>(n);
    thread.pc = 0;
    thread.slots = group.slots.data() + n * function.slots.size();
    thread.local = group.local.data() + n * function.local_bytes;
    thread.copies.assign(1, {});
    thread.mbarriers.clear();
    std::copy(function.slots.begin(), function.slots.end(), thread.slots);
    const std::array<uint32_t, 3> item = ItemOf(group, thread.number);
    for (const SpecialSlot& special : function.specials) {
      uint64_t& slot = thread.slots[special.slot];
      switch (special.special) {
        case Special::kItem: slot = item[special.axis]; break;
        case Special::kItems: slot = group.shape->items[special.axis]; break;
        case Special::kGroup: slot = number[special.axis]; break;
        case Special::kGroups: slot = group.shape->groups[special.axis]; break;
        case Special::kLane: slot = n % 32; break;
        case Special::kWarp: slot = n / 32; break;
        case Special::kWarps: slot = warps; break;
        case Special::kLanesBelow: slot = (uint64_t{1} << n % 32) - 1; break;
      }
    }
  }
}

void RunThread(Group& group, Thread& thread) {
  const Function& function = *group.function;
  uint64_t* const slots = thread.slots;
  thread.state = Thread::State::kRuns;
  for (;;) {
    const Instruction& i = function.code[thread.pc];
    if (group.budget-- == 0) {
      group.budget = 0;
      group.Fail(thread, absl::StatusCode::kDeadlineExceeded, "more instructions than the launch may take");
      return;
    }
    if (((slots[i.guard] & 1) != 0) == i.guard_negated) {
      ++thread.pc;
      continue;
    }
    switch (i.kind) {
      case Kind::kAlu: i.alu(slots, i); break;
      case Kind::kLoad:
        if (!Load(group, thread, i)) return;
        break;
      case Kind::kStore:
        if (!Store(group, thread, i)) return;
        break;
      case Kind::kAtomic:
        if (!ChangeAtomically(group, thread, i)) return;
        break;
      case Kind::kBranch: thread.pc = i.target; continue;
      case Kind::kIndexedBranch: {
        const std::vector<uint32_t>& table = function.tables[i.target];
        const uint64_t which = slots[i.at[0]];
        if (which >= table.size()) {
          group.Fail(thread, "an index beyond the branch's targets");
          return;
        }
        thread.pc = table[which];
        continue;
      }
      case Kind::kExit: thread.state = Thread::State::kDone; return;
      case Kind::kTrap: group.Fail(thread, absl::StatusCode::kAborted, "a trap"); return;
      case Kind::kNothing: break;
      case Kind::kBarrier: Arrive(group, thread, i); return;
      case Kind::kArrive:
        if (!Arrive(group, thread, i)) return;
        thread.state = Thread::State::kRuns;
        break;
      case Kind::kWarp: thread.state = Thread::State::kAtCollective; return;
      case Kind::kWarpGroup: thread.state = Thread::State::kAtWarpGroup; return;
      case Kind::kProxyFence:
        group.proxies.Fence(thread.number);
        FenceMbarriers(group, thread);
        break;
      case Kind::kFenceMbarriers: FenceMbarriers(group, thread); break;
      case Kind::kBulkCopy:
        if (!BeginBulkCopy(group, thread, i)) return;
        break;
      case Kind::kCopy:
        if (!BeginCopy(group, thread, i)) return;
        break;
      case Kind::kCommitCopies: thread.copies.emplace_back(); break;
      case Kind::kWaitCopies:
        if (i.offset < 0) thread.copies.emplace_back();  // all, the open ones as well
        if (!FinishCopies(group, thread, static_cast<size_t>(std::max<int64_t>(i.offset, 0)))) return;
        break;
      case Kind::kMbarrier: {
        char* place = group.Locate(thread, i.space, slots[i.at[1]] + static_cast<uint64_t>(i.offset), 8, Use::kAtomic);
        if (place == nullptr) return;
        if (!i.barrier_use(group, thread, i, place)) {
          if (group.failure.ok()) thread.state = Thread::State::kYields;
          ++thread.pc;
          return;
        }
        break;
      }
    }
    ++thread.pc;
  }
}

namespace {

// Runs the instruction at which lanes of the warp wait, if all that it names are there.
bool Meet(Group& group, uint32_t first) {
  const uint32_t last = std::min<uint32_t>(first + 32, static_cast<uint32_t>(group.threads.size()));
  for (uint32_t n = first; n < last; ++n) {
    Thread& leader = group.threads[n];
    if (leader.state != Thread::State::kAtCollective) continue;
    const Instruction& i = group.function->code[leader.pc];
    const auto mask = static_cast<uint32_t>(leader.slots[i.at[4]]);
    if (!(mask >> (n - first) & 1)) return group.Fail(leader, "the mask of lanes does not name this one");
    Lanes lanes = {};
    bool all = true;
    for (uint32_t m = first; m < last; ++m) {
      if (!(mask >> (m - first) & 1)) continue;
      Thread& thread = group.threads[m];
      if (thread.state == Thread::State::kDone)
        return group.Fail(leader, absl::StrCat("lane ", m - first, ", which has to take part, has ended"));
      all = all && thread.state == Thread::State::kAtCollective && thread.pc == leader.pc &&
            static_cast<uint32_t>(thread.slots[i.at[4]]) == mask;
      lanes[m - first] = &thread;
    }
    if (!all) continue;
    group.EndWarpEpoch(first / 32);
    if (!i.collective(group, lanes, i)) return false;
    for (Thread* thread : lanes) {
      if (thread == nullptr) continue;
      ++thread->pc;
      thread->state = Thread::State::kRuns;
    }
    return true;
  }
  return false;
}

// Runs the instruction at which the four warps from `first` on wait, if all of their threads are there.
bool MeetFour(Group& group, uint32_t first) {
  const auto begin = group.threads.begin() + first, end = begin + std::min<ptrdiff_t>(128, group.threads.end() - begin);
  const auto leader = std::find_if(begin, end, [](const Thread& t) { return t.state == Thread::State::kAtWarpGroup; });
  if (leader == end) return false;
  if (end - begin < 128) return group.Fail(*leader, "takes four whole warps");
  for (auto thread = begin; thread != end; ++thread) {
    if (thread->state == Thread::State::kDone)
      return group.Fail(*leader, absl::StrCat("item number ", thread->number, ", which has to take part, has ended"));
    if (thread->state != Thread::State::kAtWarpGroup) return false;
    if (thread->pc != leader->pc)
      return group.Fail(*leader, absl::StrCat("item number ", thread->number, ", which has to take part, is at `",
                                              group.function->texts[thread->pc], "`"));
  }
  const Instruction& i = group.function->code[begin->pc];
  if (i.warp_group_use != nullptr && !i.warp_group_use(group, *begin, i)) return false;
  for (auto thread = begin; thread != end; ++thread) {
    ++thread->pc;
    thread->state = Thread::State::kRuns;
  }
  return true;
}

// Lets go of who waits at a barrier that is complete.
bool Release(Group& group) {
  bool released = false;
  for (uint32_t barrier = 0; barrier < group.arrived.size(); ++barrier) {
    if (group.arrived[barrier] == 0) continue;
    const Thread* first = nullptr;
    for (const Thread& thread : group.threads) {
      if (thread.state != Thread::State::kAtBarrier || thread.barrier != barrier) continue;
      if (first == nullptr) first = &thread;
      if (thread.barrier_count != first->barrier_count)
        return group.Fail(thread, "threads at one barrier differ in how many they wait for");
      const Thread& leader = group.threads[thread.number / 32 * 32];
      if (group.function->code[thread.pc].aligned && thread.number - leader.number > 0 &&
          leader.state == Thread::State::kAtBarrier && leader.pc != thread.pc)
        return group.Fail(thread, "the lanes of a warp wait at different barriers");
    }
    if (first == nullptr || group.arrived[barrier] < first->barrier_count) continue;
    if (group.arrived[barrier] > first->barrier_count)
      return group.Fail(*first, "more threads at a barrier than it waits for");
    group.arrived[barrier] = 0;
    group.EndEpoch();
    for (Thread& thread : group.threads) {
      if (thread.state != Thread::State::kAtBarrier || thread.barrier != barrier) continue;
      ++thread.pc;
      thread.state = Thread::State::kRuns;
    }
    released = true;
  }
  return released;
}

// What goes on when all threads have ended writes to memory that is no longer theirs.
absl::Status Left(Group& group) {
  if (!group.bulk_copies.empty()) group.Fail(*group.bulk_copies.front().thread, "ends, and a copy is still under way");
  for (size_t n = 0; n < group.warp_groups.size(); ++n) {
    if (!group.warp_groups[n].accumulators.empty())
      group.Fail(group.threads[128 * n], "ends, and a wgmma.mma_async is still under way");
  }
  return group.failure;
}

absl::Status Stuck(Group& group) {
  size_t ended = 0, at_barrier = 0, at_mbarrier = 0;
  const Thread* one = nullptr;
  for (const Thread& thread : group.threads) {
    ended += thread.state == Thread::State::kDone ? 1 : 0;
    at_barrier += thread.state == Thread::State::kAtBarrier ? 1 : 0;
    at_mbarrier += thread.state == Thread::State::kYields ? 1 : 0;
    if (thread.state != Thread::State::kDone && one == nullptr) one = &thread;
  }
  group.Fail(
      *one, absl::StatusCode::kFailedPrecondition,
      absl::StrCat("waits for ever: of ", group.threads.size(), " items ", ended, " have ended and ", at_barrier,
                   " are at a barrier", at_mbarrier == 0 ? "" : absl::StrCat(", ", at_mbarrier, " at an mbarrier")));
  return group.failure;
}

}  // namespace

absl::Status RunGroup(Group& group) {
  constexpr int kMaxIdleRounds = 64;
  const auto count = static_cast<uint32_t>(group.threads.size());
  for (int idle = 0; idle < kMaxIdleRounds;) {
    bool moved = false, all_done = true;
    for (uint32_t first = 0; first < count; first += 32) {
      do {
        for (uint32_t n = first; n < std::min(first + 32, count); ++n) {
          Thread& thread = group.threads[n];
          if (thread.state != Thread::State::kRuns && thread.state != Thread::State::kYields) continue;
          RunThread(group, thread);
          if (!group.failure.ok()) return group.failure;
          moved = moved || thread.state != Thread::State::kYields;
        }
      } while (Meet(group, first));
      if (!group.failure.ok()) return group.failure;
    }
    for (uint32_t first = 0; first < count; first += 128) {
      moved = MeetFour(group, first) || moved;
      if (!group.failure.ok()) return group.failure;
    }
    for (const Thread& thread : group.threads) all_done = all_done && thread.state == Thread::State::kDone;
    if (all_done) return Left(group);
    moved = Release(group) || moved;
    if (!moved && !group.bulk_copies.empty()) moved = FinishOldestBulkCopy(group);
    if (!group.failure.ok()) return group.failure;
    const bool some_yield = std::any_of(group.threads.begin(), group.threads.end(),
                                        [](const Thread& t) { return t.state == Thread::State::kYields; });
    idle = moved ? 0 : some_yield ? idle + 1 : kMaxIdleRounds;
  }
  return Stuck(group);
}

}  // namespace kiln::testing::ptx
