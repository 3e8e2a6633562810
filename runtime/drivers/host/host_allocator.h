// Host memory as device memory, with a limit.
#ifndef KILN_RUNTIME_DRIVERS_HOST_HOST_ALLOCATOR_H_
#define KILN_RUNTIME_DRIVERS_HOST_HOST_ALLOCATOR_H_

#include <cstdint>
#include <memory>

#include "runtime/drivers/host/page_pool.h"
#include "runtime/hal/allocator.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::host {

// Buffers come straight from the system, zero whatever they are for, and go straight back. `device` is what
// they say they are on; it may still be under construction. `limit_bytes` bounds
// what is handed out, rounded up to pages where it is large. `mappings` are those that large buffers take, of several
// allocators together; null: this one has its own.
std::unique_ptr<hal::Allocator> MakeHostAllocator(const hal::Device* device, uint64_t limit_bytes,
                                                  std::shared_ptr<Mappings> mappings = nullptr);

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_HOST_ALLOCATOR_H_
