// Whether what one name writes another name sees.
//
// Kernels assume that no parameter sees what another one writes. Where many
// parameters are parts of few buffers, comparing each with each is too dear: here they
// are sorted, and met in one sweep.
#ifndef KILN_RUNTIME_PLAN_SHARING_H_
#define KILN_RUNTIME_PLAN_SHARING_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/inlined_vector.h"

namespace kiln::runtime {

// Bytes [begin, end) of some memory. Two regions of different memories share nothing.
struct Region {
  uint64_t memory = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool written = false;
  uint32_t name = 0;  // the name that it is of
};
using Regions = absl::InlinedVector<Region, 16>;

// The names of two regions that share bytes of which at least one is written, a written
// one first; nothing if there are none. Sorts the regions.
std::optional<std::pair<uint32_t, uint32_t>> FindClash(Regions& regions);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_PLAN_SHARING_H_
