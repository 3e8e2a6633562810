// Memory of another process, handed out from here.
//
// The process has set a range of addresses aside; which of them are in use is
// known on this side alone, so that allocating waits for no answer.
#ifndef KILN_RUNTIME_DRIVERS_REMOTE_RANGE_ALLOCATOR_H_
#define KILN_RUNTIME_DRIVERS_REMOTE_RANGE_ALLOCATOR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "runtime/hal/allocator.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::remote {

using ClearFunction = std::function<void(uint64_t address, uint64_t bytes, std::function<void()> done)>;

struct Range {
  uint64_t base = 0;
  // Of addresses, and how many of them may be in use at a time.
  uint64_t bytes = 0;
  uint64_t limit_bytes = 0;
  // Whether this process sees the memory at the same addresses.
  bool host_sees = false;
};

// `clear` has [address, address + bytes) read as zeroes, and lets go of whole pages. Without `done` that has happened
// when it returns; else `done` is called when it has: only then may freed memory be allocated again, since its next
// user may be work that comes before the clearing. `health` must be OK for new memory. The range
// is all zero at first. The allocator outlives what `clear` has begun.
std::unique_ptr<hal::Allocator> MakeRangeAllocator(const hal::Device* device, const Range& range, ClearFunction clear,
                                                   std::function<absl::Status()> health);

}  // namespace kiln::runtime::remote

#endif  // KILN_RUNTIME_DRIVERS_REMOTE_RANGE_ALLOCATOR_H_
