// Pages for buffers, in few mappings.
//
// Linux gives a process so many memory mappings (vm.max_map_count, usually 65,530), and each hole between pages that
// are in use makes two of one. A process that has none left gets no memory any more, no thread and no program, so
// buffers must not use them up. A mapping for each buffer would: who makes very many and frees every second one has a
// mapping for each that is left, and needs no memory for that, since nobody has touched it. So pages come from slabs,
// large mappings of which many buffers are parts; what is freed within one gives its memory back and leaves its
// addresses. Only a buffer of 32 MiB or more is a mapping of its own. Slabs and such mappings are counted.
#ifndef KILN_RUNTIME_DRIVERS_HOST_PAGE_POOL_H_
#define KILN_RUNTIME_DRIVERS_HOST_PAGE_POOL_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "runtime/drivers/host/map_pages.h"

namespace kiln::runtime::host {

// How many mappings there may be, for several pools together. Safe from any thread.
class Mappings {
 public:
  // By itself three eighths of what the system gives a process: programs have as many (server/engine/programs/), and
  // the rest is for threads, the heap and files.
  Mappings() : Mappings(OfTheSystem() / 8 * 3) {}
  explicit Mappings(uint64_t limit) : limit_(limit) {}

  bool Take();
  void Return() { used_.fetch_sub(1, std::memory_order_relaxed); }
  uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  uint64_t limit() const { return limit_; }

 private:
  static uint64_t OfTheSystem();

  const uint64_t limit_;
  std::atomic<uint64_t> used_ = 0;
};

// Slabs of one size, and which of their pages are free.
class Slabs {
 public:
  // Parts are whole pages, so that no limit is charged for more than a client asks for.
  Slabs(Mappings* mappings, uint64_t slab_bytes, PageSize size)
      : mappings_(mappings), slab_bytes_(slab_bytes), size_(size) {}
  ~Slabs();
  Slabs(const Slabs&) = delete;
  Slabs& operator=(const Slabs&) = delete;

  // `bytes` of zeros. Null if there is no memory or no mapping for one more slab.
  void* Take(uint64_t bytes);
  // Whether they are of these slabs; if so, takes them back.
  bool Return(void* data, uint64_t bytes);

 private:
  // Free bytes, the smallest first; of one size, those at low addresses, so that slabs at high ones become empty.
  using Free = std::set<std::pair<uint64_t, uintptr_t>>;

  // The slab that this address is in; 0: none.
  uintptr_t SlabOf(uintptr_t address) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddFree(uintptr_t begin, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RemoveFree(uintptr_t begin, uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mappings* const mappings_;
  const uint64_t slab_bytes_;
  const PageSize size_;
  absl::Mutex mutex_;
  std::set<uintptr_t> slabs_ ABSL_GUARDED_BY(mutex_);
  // No two of them meet within a slab: they would be one.
  std::map<uintptr_t, uint64_t> free_ ABSL_GUARDED_BY(mutex_);
  Free by_bytes_ ABSL_GUARDED_BY(mutex_);
};

// Safe from any thread.
class PagePool {
 public:
  // What is as large, or larger, has large pages where the system has some, in part with its neighbours.
  static constexpr uint64_t kLarge = kWorthLargePages;
  // From here on, a mapping each: so many bytes that a machine's memory is used up before the mappings are.
  static constexpr uint64_t kOwnMapping = uint64_t{32} << 20;

  explicit PagePool(std::shared_ptr<Mappings> mappings);
  ~PagePool();

  // What Take(bytes) really takes. `bytes` is at most 2^62.
  static uint64_t Rounded(uint64_t bytes);

  // Rounded(bytes) of zeros. OUT_OF_MEMORY (RESOURCE_EXHAUSTED), with the limit "memory mappings" where that is why.
  absl::StatusOr<void*> Take(uint64_t bytes);
  // What Take(bytes) gave.
  void Return(void* data, uint64_t bytes);

 private:
  void* TakeMapping(uint64_t bytes);
  void ReturnMapping(void* data, uint64_t bytes);

  const std::shared_ptr<Mappings> mappings_;
  Slabs middle_, large_;
  absl::Mutex mutex_;
  // Mappings that the system would not take back: empty, and given out or tried again later.
  std::multimap<uint64_t, void*> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_PAGE_POOL_H_
