// Memory that a rank has set aside for what rank 0 says: no message may name any other.
#ifndef KILN_RUNTIME_CLUSTER_RANGES_H_
#define KILN_RUNTIME_CLUSTER_RANGES_H_

#include <cstdint>
#include <vector>

namespace kiln::runtime::cluster {

struct Range {
  uint64_t base = 0;
  uint64_t bytes = 0;

  // Whether [address, address + count) lies in it.
  bool Holds(uint64_t address, uint64_t count) const {
    return address >= base && address - base <= bytes && count <= bytes - (address - base);
  }
};

using Ranges = std::vector<Range>;

// Whether one of them holds it all; no bytes lie anywhere.
inline bool Holds(const Ranges& ranges, uint64_t address, uint64_t count) {
  if (count == 0) return true;
  for (const Range& range : ranges) {
    if (range.Holds(address, count)) return true;
  }
  return false;
}

}  // namespace kiln::runtime::cluster

#endif  // KILN_RUNTIME_CLUSTER_RANGES_H_
