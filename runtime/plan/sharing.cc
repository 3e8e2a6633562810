#include "runtime/plan/sharing.h"

#include <algorithm>
#include <tuple>

namespace kiln::runtime {

std::optional<std::pair<uint32_t, uint32_t>> FindClash(Regions& regions) {
  std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) {
    return std::tie(a.memory, a.begin, a.end) < std::tie(b.memory, b.begin, b.end);
  });
  // Of those so far in this memory, the one that reaches furthest: of all, and of the
  // written. What begins behind it shares nothing with any of them.
  const Region* furthest = nullptr;
  const Region* furthest_written = nullptr;
  for (const Region& region : regions) {
    if (region.begin == region.end) continue;
    if (furthest != nullptr && furthest->memory != region.memory) furthest = furthest_written = nullptr;
    if (furthest_written != nullptr && region.begin < furthest_written->end) {
      return std::make_pair(furthest_written->name, region.name);
    }
    if (region.written && furthest != nullptr && region.begin < furthest->end) {
      return std::make_pair(region.name, furthest->name);
    }
    if (furthest == nullptr || region.end > furthest->end) furthest = &region;
    if (region.written && (furthest_written == nullptr || region.end > furthest_written->end)) {
      furthest_written = &region;
    }
  }
  return std::nullopt;
}

}  // namespace kiln::runtime
