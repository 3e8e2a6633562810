#include "runtime/memory/caching_allocator.h"

#include <algorithm>
#include <array>
#include <bit>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"

namespace kiln::runtime {
namespace {

using hal::Buffer;
using hal::MemoryUse;

constexpr uint64_t kSmallest = 256;
constexpr int kSmallestBits = 8;
constexpr uint64_t kLargest = uint64_t{1} << 62;

// Classes are the powers of two from kSmallest on and three steps between each
// and the next: 256, 320, 384, 448, 512, 640, ...
size_t ClassIndex(uint64_t class_bytes) {
  const int top = std::bit_width(class_bytes) - 1;
  const uint64_t quarter = (class_bytes >> (top - 2)) & 3;
  return static_cast<size_t>(top - kSmallestBits) * 4 + quarter;
}
constexpr size_t kClasses = (62 - kSmallestBits) * 4 + 1;

// So many idle pieces of a class are looked through for one of the asker's own.
constexpr size_t kLooks = 16;

// Memory, and whose it is or was.
struct Piece {
  std::shared_ptr<Buffer> memory;
  MemoryDomain domain = MemoryDomain::kNobody;
};

bool MayFind(MemoryDomain domain, MemoryDomain left) { return domain == left && domain != MemoryDomain::kNobody; }

// What the allocator and its buffers share.
class Cache {
 public:
  Cache(std::unique_ptr<hal::Allocator> inner, uint64_t limit, std::function<absl::Status(void*, uint64_t)> clear)
      : inner_(std::move(inner)), limit_(limit), clear_(std::move(clear)) {}

  // Memory of at least `bytes` bytes.
  absl::StatusOr<std::shared_ptr<Buffer>> Take(uint64_t bytes, MemoryUse use, MemoryDomain domain) {
    if (use == MemoryUse::kElsewhere) {
      if (absl::StatusOr<std::shared_ptr<Buffer>> stands = inner_->Allocate(bytes, use); stands.ok())
        return Count(*std::move(stands), /*reused=*/false);
    } else if (bytes <= kLargest) {
      const uint64_t class_bytes = SizeClass(bytes);
      if (Piece idle = TakeIdle(class_bytes, domain); idle.memory != nullptr) {
        absl::Status cleared;
        if (!MayFind(domain, idle.domain)) {
          // To its end, which the next of this domain may get.
          cleared = clear_(idle.memory->device_data(), class_bytes);
        } else if (use == MemoryUse::kClient) {
          cleared = clear_(idle.memory->device_data(), bytes);
        }
        if (cleared.ok()) return std::move(idle.memory);
        Return(std::move(idle));
        return cleared;
      }
      absl::StatusOr<std::shared_ptr<Buffer>> fresh = inner_->Allocate(class_bytes, use);
      if (fresh.ok()) return Count(*std::move(fresh), /*reused=*/false);
    }
    return TakeExactly(bytes, use);
  }

  // Short of memory: the idle goes, and so does the rounding.
  absl::StatusOr<std::shared_ptr<Buffer>> TakeExactly(uint64_t bytes, MemoryUse use) {
    Trim();
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> exact, inner_->Allocate(bytes, use));
    return Count(std::move(exact), /*reused=*/false);
  }

  // Takes memory back, to keep or to free.
  void Return(Piece piece) {
    std::shared_ptr<Buffer>& memory = piece.memory;
    const uint64_t bytes = memory->bytes();
    std::vector<std::shared_ptr<Buffer>> freed;  // freed after the lock
    absl::MutexLock lock(&mutex_);
    stats_.in_use_bytes -= bytes;
    --stats_.buffers;
    const bool elsewhere = memory->device_data() == nullptr;
    if (elsewhere || bytes < kSmallest || bytes > limit_ || SizeClass(bytes) != bytes) {
      freed.push_back(std::move(memory));
      return;
    }
    idle_[ClassIndex(bytes)].push_back({std::move(piece), next_age_++});
    stats_.cached_bytes += bytes;
    while (stats_.cached_bytes > limit_) freed.push_back(DropOldest());
  }

  void Trim() {
    std::vector<std::shared_ptr<Buffer>> freed;
    absl::MutexLock lock(&mutex_);
    while (stats_.cached_bytes > 0) freed.push_back(DropOldest());
  }

  hal::AllocatorStats stats() const {
    absl::MutexLock lock(&mutex_);
    hal::AllocatorStats stats = stats_;
    stats.limit_bytes = inner_->stats().limit_bytes;
    return stats;
  }

 private:
  struct Idle {
    Piece piece;
    uint64_t age;  // smaller is older
  };

  Piece TakeIdle(uint64_t class_bytes, MemoryDomain domain) {
    Piece piece;
    {
      absl::MutexLock lock(&mutex_);
      std::deque<Idle>& idle = idle_[ClassIndex(class_bytes)];
      if (idle.empty()) return piece;
      auto found = std::prev(idle.end());  // the last one freed is the warmest
      auto one = idle.rbegin();
      for (size_t looks = 0; looks < kLooks && one != idle.rend(); ++looks, ++one) {
        if (!MayFind(domain, one->piece.domain)) continue;
        found = std::prev(one.base());
        break;
      }
      piece = std::move(found->piece);
      idle.erase(found);
      stats_.cached_bytes -= class_bytes;
    }
    piece.memory = Count(std::move(piece.memory), /*reused=*/true);
    return piece;
  }

  std::shared_ptr<Buffer> Count(std::shared_ptr<Buffer> memory, bool reused) {
    absl::MutexLock lock(&mutex_);
    stats_.in_use_bytes += memory->bytes();
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.in_use_bytes);
    ++stats_.buffers;
    ++stats_.allocations;
    if (reused) ++stats_.reuses;
    return memory;
  }

  // The idle memory that has waited longest; there must be some.
  std::shared_ptr<Buffer> DropOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::deque<Idle>* oldest = nullptr;
    for (std::deque<Idle>& idle : idle_) {
      if (!idle.empty() && (oldest == nullptr || idle.front().age < oldest->front().age)) oldest = &idle;
    }
    std::shared_ptr<Buffer> memory = std::move(oldest->front().piece.memory);
    oldest->pop_front();
    stats_.cached_bytes -= memory->bytes();
    return memory;
  }

  const std::unique_ptr<hal::Allocator> inner_;
  const uint64_t limit_;
  const std::function<absl::Status(void*, uint64_t)> clear_;

  mutable absl::Mutex mutex_;
  std::array<std::deque<Idle>, kClasses> idle_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_age_ ABSL_GUARDED_BY(mutex_) = 0;
  hal::AllocatorStats stats_ ABSL_GUARDED_BY(mutex_);
};

// The first `bytes` bytes of a piece of memory that goes back to the cache.
class CachedBuffer final : public Buffer {
 public:
  CachedBuffer(Cache* cache, std::shared_ptr<Buffer> memory, uint64_t bytes, MemoryDomain domain)
      : cache_(cache), memory_(std::move(memory)), bytes_(bytes), domain_(domain) {}
  ~CachedBuffer() override { cache_->Return({std::move(memory_), domain_}); }
  uint64_t bytes() const override { return bytes_; }
  const hal::Device* device() const override { return memory_->device(); }
  void* device_data() const override { return memory_->device_data(); }
  void* host_data() const override { return memory_->host_data(); }

 private:
  Cache* const cache_;
  std::shared_ptr<Buffer> memory_;
  const uint64_t bytes_;
  const MemoryDomain domain_;
};

class CachingAllocator final : public hal::Allocator {
 public:
  CachingAllocator(std::unique_ptr<hal::Allocator> inner, uint64_t limit,
                   std::function<absl::Status(void*, uint64_t)> clear)
      : cache_(std::move(inner), limit, std::move(clear)) {}

  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(uint64_t bytes, MemoryUse use, MemoryDomain domain) override {
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> memory, cache_.Take(bytes, use, domain));
    return std::make_shared<CachedBuffer>(&cache_, std::move(memory), bytes, domain);
  }
  absl::StatusOr<std::shared_ptr<Buffer>> AllocateExactly(uint64_t bytes, MemoryUse use, MemoryDomain domain) override {
    KILN_ASSIGN_OR_RETURN(std::shared_ptr<Buffer> memory, cache_.TakeExactly(bytes, use));
    return std::make_shared<CachedBuffer>(&cache_, std::move(memory), bytes, domain);
  }
  void Trim() override { cache_.Trim(); }
  hal::AllocatorStats stats() const override { return cache_.stats(); }

 private:
  Cache cache_;
};

}  // namespace

uint64_t SizeClass(uint64_t bytes) {
  if (bytes <= kSmallest) return kSmallest;
  const uint64_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

std::unique_ptr<hal::Allocator> MakeCachingAllocator(std::unique_ptr<hal::Allocator> inner, uint64_t cache_limit_bytes,
                                                     std::function<absl::Status(void* data, uint64_t bytes)> clear) {
  return std::make_unique<CachingAllocator>(std::move(inner), cache_limit_bytes, std::move(clear));
}

}  // namespace kiln::runtime
