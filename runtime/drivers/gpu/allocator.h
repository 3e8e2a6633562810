// A GPU's memory, up to a limit.
#ifndef KILN_RUNTIME_DRIVERS_GPU_ALLOCATOR_H_
#define KILN_RUNTIME_DRIVERS_GPU_ALLOCATOR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/drivers/gpu/card.h"
#include "runtime/hal/allocator.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::gpu {

// Buffers come straight from the card, zero whatever they are for, and go straight back, which takes long: to be
// wrapped in a caching allocator. `device` is what they say they are on; it may still be under
// construction. `clear` zeroes memory for its next user, without waiting for that.
std::unique_ptr<hal::Allocator> MakeCardAllocator(const hal::Device* device, Card* card, uint64_t limit_bytes,
                                                  std::function<absl::Status(Address to, uint64_t bytes)> clear);

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_ALLOCATOR_H_
