#include "runtime/drivers/host/map_pages.h"

#include <sys/mman.h>

#include <cstring>
#include <limits>

namespace kiln::runtime::host {
namespace {

char* Map(uint64_t bytes) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return data == MAP_FAILED ? nullptr : static_cast<char*>(data);
}

}  // namespace

void* MapPages(uint64_t bytes, PageSize size) {
  if (size == PageSize::kSmall || bytes > std::numeric_limits<uint64_t>::max() - kLargePage) {
    char* const data = Map(bytes);
    // Else a system that gives large pages to everybody would back neighbours, too, that nobody has touched or pays
    // for.
    if (data != nullptr) madvise(data, bytes, MADV_NOHUGEPAGE);
    return data;
  }
  // A large page more than is needed, of which what stands before and behind goes back. Where the system has no mapping
  // left to cut that off with, it stays: addresses alone, since nobody has touched them.
  char* data = Map(bytes + kLargePage);
  if (data == nullptr) return nullptr;
  // As far behind as may be: the system puts mappings below each other, and those that meet are one.
  const uint64_t before = kLargePage - (reinterpret_cast<uintptr_t>(data) & (kLargePage - 1));
  munmap(data, before);
  if (before < kLargePage) munmap(data + before + bytes, kLargePage - before);
  data += before;
  madvise(data, bytes, MADV_HUGEPAGE);  // where there are none, small ones do
  return data;
}

bool UnmapPages(void* data, uint64_t bytes) { return munmap(data, bytes) == 0; }

void EmptyPages(void* data, uint64_t bytes) {
  // Refused where memory is locked; then it stays, but nothing that was in it.
  if (madvise(data, bytes, MADV_DONTNEED) != 0) std::memset(data, 0, bytes);
}

void ClearPages(void* data, uint64_t bytes) {
  if (bytes > kMaxZeroed) {
    // What stands before the first whole page, and behind the last, may be on a page with something else.
    char* const begin = static_cast<char*>(data);
    const uint64_t before = -reinterpret_cast<uintptr_t>(data) & (kPage - 1);
    const uint64_t pages = (bytes - before) & ~(kPage - 1);
    if (madvise(begin + before, pages, MADV_DONTNEED) == 0) {
      std::memset(begin, 0, before);
      std::memset(begin + before + pages, 0, bytes - before - pages);
      return;
    }
  }
  std::memset(data, 0, bytes);
}

}  // namespace kiln::runtime::host
