#include "runtime/plan/access_order.h"

namespace kiln::runtime {

void AccessOrder::Split(Memory& memory, uint64_t at) {
  auto above = memory.upper_bound(at);
  if (above == memory.begin()) return;
  auto& [begin, bytes] = *std::prev(above);
  if (begin == at || bytes.end <= at) return;
  Bytes rest = bytes;
  bytes.end = at;
  memory.emplace(at, std::move(rest));
}

void AccessOrder::Access(uint64_t memory_id, uint64_t begin, uint64_t end, bool writes, uint32_t task,
                         std::vector<uint32_t>& waits_for) {
  if (begin >= end) return;
  Memory& memory = memories_[memory_id];
  Split(memory, begin);
  Split(memory, end);
  auto at = memory.lower_bound(begin);
  uint64_t covered = begin;
  const auto fill = [&](uint64_t until) {
    if (covered < until) memory.emplace_hint(at, covered, Bytes{until});
  };
  for (; at != memory.end() && at->first < end; ++at) {
    fill(at->first);
    covered = at->second.end;
  }
  fill(end);
  if (writes) {
    for (at = memory.lower_bound(begin); at != memory.end() && at->first < end; ++at) {
      if (at->second.writer != kNobody) waits_for.push_back(at->second.writer);
      waits_for.insert(waits_for.end(), at->second.readers.begin(), at->second.readers.end());
    }
    memory.erase(memory.lower_bound(begin), memory.lower_bound(end));
    memory.emplace(begin, Bytes{end, task});
    return;
  }
  for (at = memory.lower_bound(begin); at != memory.end() && at->first < end; ++at) {
    if (at->second.writer != kNobody) waits_for.push_back(at->second.writer);
    if (at->second.readers.empty() || at->second.readers.back() != task) at->second.readers.push_back(task);
  }
}

}  // namespace kiln::runtime
