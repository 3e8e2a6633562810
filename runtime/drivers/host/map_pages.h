// Fresh memory from the system, of pages as large as its size is worth.
//
// A page of 4 KiB is 1024 floats: a kernel that walks memory misses the TLB once for each, and prefetchers stop at
// its end. With pages of 2 MiB, sums over memory beyond the caches run up to 1.8 times as fast.
#ifndef KILN_RUNTIME_DRIVERS_HOST_MAP_PAGES_H_
#define KILN_RUNTIME_DRIVERS_HOST_MAP_PAGES_H_

#include <cstdint>

namespace kiln::runtime::host {

inline constexpr uint64_t kLargePage = uint64_t{2} << 20;
// Smaller mappings would waste much of their last large page, and stay in the caches anyway.
inline constexpr uint64_t kWorthLargePages = 2 * kLargePage;

// `bytes` of zeros, a multiple of 4096; from kWorthLargePages on it begins on a large page, and the system is
// asked for such. Null if there is no memory. UnmapPages gives it back.
void* MapPages(uint64_t bytes);
void UnmapPages(void* data, uint64_t bytes);

// In bytes: to write zeros over more than this takes many milliseconds, in which a caller that has given up would not
// be heard.
inline constexpr uint64_t kMaxZeroed = uint64_t{32} << 20;

// Makes `bytes` of memory that is this process's own zero. Of more than kMaxZeroed the system takes the pages back,
// which is soon done, and gives others, which are zero, as they are touched.
void ClearPages(void* data, uint64_t bytes);

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_MAP_PAGES_H_
