// Fresh memory from the system, of pages as large as its size is worth.
//
// A page of 4 KiB is 1024 floats: a kernel that walks memory misses the TLB once for each, and prefetchers stop at
// its end. With pages of 2 MiB, sums over memory beyond the caches run up to 1.8 times as fast.
#ifndef KILN_RUNTIME_DRIVERS_HOST_MAP_PAGES_H_
#define KILN_RUNTIME_DRIVERS_HOST_MAP_PAGES_H_

#include <cstdint>

namespace kiln::runtime::host {

inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kLargePage = uint64_t{2} << 20;
// Smaller mappings would waste much of their last large page, and stay in the caches anyway.
inline constexpr uint64_t kWorthLargePages = 2 * kLargePage;

enum class PageSize {
  // None is large, also where the system makes pages large by itself: what nobody touches takes no memory.
  kSmall,
  // The mapping begins on a large page, and the system is asked for such.
  kLarge,
};

// `bytes` of zeros, a multiple of kPage, in one mapping. Null if there is no memory, or no mapping (vm.max_map_count).
void* MapPages(uint64_t bytes, PageSize size);

// Gives back what MapPages gave, or whole pages of it. False if the system refuses, as it does where that would cut a
// mapping in two and the process may have no more of them: then the pages are still there, and as they were.
[[nodiscard]] bool UnmapPages(void* data, uint64_t bytes);

// Gives the memory of whole pages back, and keeps their addresses, where zeros are found again.
void EmptyPages(void* data, uint64_t bytes);

// In bytes: to write zeros over more than this takes many milliseconds, in which a caller that has given up would not
// be heard.
inline constexpr uint64_t kMaxZeroed = uint64_t{32} << 20;

// Makes `bytes` of memory that is this process's own zero. Of more than kMaxZeroed the system takes the pages back,
// which is soon done, and gives others, which are zero, as they are touched.
void ClearPages(void* data, uint64_t bytes);

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_MAP_PAGES_H_
