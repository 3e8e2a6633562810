// Keeps freed memory for the next request.
//
// Fresh memory from the system costs a page fault for every 4 KiB; memory used
// before costs nothing. Requests are rounded up to size classes (four to a
// doubling, so at most a fifth is wasted), and a freed buffer waits in its
// class's list until someone asks for that class, until the cache is over its
// bound, or until the inner allocator is out of memory. It remembers whose it was: who gets it next and is somebody
// else gets it cleared, and who finds some of its own gets that.
#ifndef KILN_RUNTIME_MEMORY_CACHING_ALLOCATOR_H_
#define KILN_RUNTIME_MEMORY_CACHING_ALLOCATOR_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/hal/allocator.h"

namespace kiln::runtime {

// The size class of a request: the bytes really allocated for it. `bytes` must
// be at most 2^62.
uint64_t SizeClass(uint64_t bytes);

// A decorator of `inner`, which it owns. `cache_limit_bytes` bounds what lies
// idle; the limit on the whole is the inner allocator's, whose memory is zero for whatever use. `clear` zeroes recycled
// memory: it gets a device address and bytes. What could not be cleared stays idle, and the caller that asked for it
// gets the error.
std::unique_ptr<hal::Allocator> MakeCachingAllocator(std::unique_ptr<hal::Allocator> inner, uint64_t cache_limit_bytes,
                                                     std::function<absl::Status(void* data, uint64_t bytes)> clear);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_MEMORY_CACHING_ALLOCATOR_H_
