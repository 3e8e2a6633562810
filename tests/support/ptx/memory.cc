// Addresses, asynchronous copies, and what atomics do.
#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/support/ptx/group.h"

namespace kiln::testing::ptx {

Memory::Memory(std::vector<Range> ranges) : ranges_(std::move(ranges)) {}

char* Memory::Find(uint64_t address, uint64_t bytes, bool write) {
  const auto serves = [&](const Range& range) {
    return address - range.begin < range.bytes && range.bytes - (address - range.begin) >= bytes &&
           (range.writable || !write);
  };
  if (last_ >= ranges_.size() || !serves(ranges_[last_])) {
    const auto found = std::find_if(ranges_.begin(), ranges_.end(), serves);
    if (found == ranges_.end()) return nullptr;
    last_ = static_cast<size_t>(found - ranges_.begin());
  }
  return reinterpret_cast<char*>(address);
}

bool Group::Race(const Thread& thread, Races& watch, uint64_t first, uint64_t address, uint32_t bytes, Use use) {
  const bool writes = use == Use::kWrite || use == Use::kEngineWrite;
  const std::optional<uint32_t> other =
      writes ? watch.Write(thread.number, first, bytes) : watch.Read(thread.number, first, bytes);
  if (!other.has_value()) return false;
  Fail(thread, absl::StrFormat("%s 0x%x of %s memory, which item number %d %s, and nothing orders them",
                               writes ? "writes" : "reads", address, &watch == &races ? "shared" : "global", *other,
                               &watch == &races ? "uses" : "of this group or another uses"));
  return true;
}

char* Group::Locate(Thread& thread, Space space, uint64_t address, uint32_t bytes, Use use) {
  if (address % bytes != 0) {
    Fail(thread, absl::StrFormat("address 0x%x is not aligned to %d", address, bytes));
    return nullptr;
  }
  if (space == Space::kGeneric) {
    switch (address / kSharedWindow) {
      case 1: space = Space::kShared, address -= kSharedWindow; break;
      case 2: space = Space::kLocal, address -= kLocalWindow; break;
      case 3: space = Space::kParam, address -= kParamWindow; break;
      default: space = Space::kGlobal;
    }
  }
  const auto within = [&](uint64_t size) { return address < size && size - address >= bytes; };
  char* place = nullptr;
  switch (space) {
    case Space::kGeneric:
    case Space::kConst:
    case Space::kGlobal: {
      place = memory->Find(address, bytes, use != Use::kRead);
      if (place == nullptr || use == Use::kAtomic) break;
      const std::optional<uint64_t> first = global_races.Number(address);
      if (first.has_value() && Race(thread, global_races.races(), *first, address, bytes, use)) return nullptr;
      break;
    }
    case Space::kShared: {
      if (!within(shared.size())) break;
      place = shared.data() + address;
      const bool by_engine = use == Use::kEngineRead || use == Use::kEngineWrite;
      const std::optional<uint32_t> unfenced = by_engine ? proxies.Unfenced(address, bytes) : std::optional<uint32_t>();
      if (unfenced.has_value()) {
        Fail(thread, absl::StrFormat("uses 0x%x of shared memory, to which item number %d has stored with no "
                                     "fence.proxy.async behind it",
                                     address, *unfenced));
        return nullptr;
      }
      if (use == Use::kWrite) proxies.Store(thread.number, address, bytes);
      if (use == Use::kAtomic) break;
      if (Race(thread, races, address, address, bytes, use)) return nullptr;
      break;
    }
    case Space::kLocal:
      if (within(function->local_bytes)) place = thread.local + address;
      break;
    case Space::kParam:
      if (within(function->parameter_bytes) && use == Use::kRead) place = const_cast<char*>(parameters) + address;
      break;
  }
  static constexpr const char* kNames[] = {"generic", "global", "const", "shared", "local", "param"};
  if (place == nullptr)
    Fail(thread, absl::StatusCode::kOutOfRange,
         absl::StrFormat("%s %d bytes at 0x%x of %s memory, which are not there",
                         use == Use::kRead || use == Use::kEngineRead ? "reads" : "writes", bytes, address,
                         kNames[static_cast<size_t>(space)]));
  return place;
}

// Until it is waited for, the destination holds the pattern of what nobody wrote.
bool BeginCopy(Group& group, Thread& thread, const Instruction& i) {
  Copy copy;
  copy.to = thread.slots[i.at[0]] + static_cast<uint64_t>(i.offset);
  copy.from = thread.slots[i.at[1]] + static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(i.list)));
  copy.bytes = i.bytes;
  copy.source_bytes = i.at[2] == kTrueSlot ? i.bytes : static_cast<uint32_t>(thread.slots[i.at[2]]);
  if (i.at[3] != kTrueSlot && (thread.slots[i.at[3]] & 1) != 0) copy.source_bytes = 0;  // ignore-src
  if (copy.source_bytes > copy.bytes) return group.Fail(thread, "a source of more bytes than are copied");
  char* to = group.Locate(thread, Space::kShared, copy.to & 0xffffffff, copy.bytes, Use::kWrite);
  if (to == nullptr) return false;
  copy.to &= 0xffffffff;
  std::memset(to, kUnwritten, copy.bytes);
  thread.copies.back().push_back(copy);
  return true;
}

bool FinishCopies(Group& group, Thread& thread, size_t max_open) {
  while (thread.copies.size() > max_open + 1) {
    for (const Copy& copy : thread.copies.front()) {
      char* to = group.Locate(thread, Space::kShared, copy.to, copy.bytes, Use::kWrite);
      if (to == nullptr) return false;
      std::memset(to, 0, copy.bytes);
      if (copy.source_bytes == 0) continue;
      const char* from =
          copy.from % copy.bytes == 0 ? group.memory->Find(copy.from, copy.source_bytes, false) : nullptr;
      if (from == nullptr)
        return group.Fail(thread, absl::StatusCode::kOutOfRange,
                          absl::StrFormat("copies %d bytes from 0x%x of global memory, which are not there or not "
                                          "aligned",
                                          copy.source_bytes, copy.from));
      std::memcpy(to, from, copy.source_bytes);
    }
    thread.copies.erase(thread.copies.begin());
  }
  return true;
}

}  // namespace kiln::testing::ptx
