#include "runtime/cache/program_cache.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::runtime {
namespace {

constexpr size_t kShards = 16;

using Counter = std::atomic<uint64_t>;
void Add(Counter& counter, uint64_t n = 1) { counter.fetch_add(n, std::memory_order_relaxed); }

}  // namespace

class ProgramCacheCore::Impl : public std::enable_shared_from_this<Impl> {
 public:
  explicit Impl(uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  std::shared_ptr<void> Find(const Digest& key) {
    Shard& shard = ShardOf(key);
    absl::MutexLock lock(&shard.mutex);
    std::shared_ptr<void> value = FindLocked(shard, key);
    Add(value != nullptr ? hits_ : misses_);
    return value;
  }

  void GetOrStart(const Digest& key, absl::AnyInvocable<void(Finish)> start, Waiter waiter) {
    Shard& shard = ShardOf(key);
    std::shared_ptr<void> value;
    {
      absl::MutexLock lock(&shard.mutex);
      value = FindLocked(shard, key);
      Add(value != nullptr ? hits_ : misses_);
      if (value == nullptr) {
        const auto [flight, first] = shard.flights.try_emplace(key);
        flight->second.push_back(std::move(waiter));
        if (!first) return;
      }
    }
    if (value != nullptr) return waiter(std::move(value), CacheOutcome::kHit);
    Add(computations_);
    start([flight = std::make_unique<Flight>(shared_from_this(), key)](absl::StatusOr<Entry> entry) mutable {
      flight->Land(std::move(entry));
    });
  }

  void Put(const Digest& key, Entry entry) {
    {
      Shard& shard = ShardOf(key);
      std::shared_ptr<void> dropped;  // destroyed after the lock
      absl::MutexLock lock(&shard.mutex);
      dropped = KeepLocked(shard, key, entry);
    }
    if (bytes_ > limit_bytes_) Evict();
  }

  bool Erase(const Digest& key) {
    Shard& shard = ShardOf(key);
    std::shared_ptr<void> dropped;  // destroyed after the lock
    absl::MutexLock lock(&shard.mutex);
    const auto it = shard.entries.find(key);
    if (it == shard.entries.end()) return false;
    dropped = DropLocked(shard, it->second);
    return true;
  }

  void EraseIdle(absl::FunctionRef<bool(const void*)> may, absl::FunctionRef<bool()> enough) {
    struct Idle {
      Digest key;
      uint64_t used;
    };
    std::vector<Idle> idle;
    for (Shard& shard : shards_) {
      absl::MutexLock lock(&shard.mutex);
      for (const Kept& kept : shard.recent) {
        if (IsIdle(kept) && may(kept.value.get())) idle.push_back({kept.key, kept.used});
      }
    }
    std::sort(idle.begin(), idle.end(), [](const Idle& a, const Idle& b) { return a.used < b.used; });
    for (const Idle& one : idle) {
      if (EraseIfIdleSince(one.key, one.used) && enough()) return;
    }
  }

  std::vector<std::pair<Digest, std::shared_ptr<void>>> List() const {
    std::vector<Kept> all;
    for (const Shard& shard : shards_) {
      absl::MutexLock lock(&shard.mutex);
      all.insert(all.end(), shard.recent.begin(), shard.recent.end());
    }
    std::sort(all.begin(), all.end(), [](const Kept& a, const Kept& b) { return a.used > b.used; });
    std::vector<std::pair<Digest, std::shared_ptr<void>>> list;
    list.reserve(all.size());
    for (Kept& kept : all) list.emplace_back(kept.key, std::move(kept.value));
    return list;
  }

  CacheStats stats() const {
    CacheStats stats;
    stats.hits = hits_;
    stats.misses = misses_;
    stats.computations = computations_;
    stats.failures = failures_;
    stats.evictions = evictions_;
    stats.entries = entries_;
    stats.bytes = bytes_;
    stats.limit_bytes = limit_bytes_;
    return stats;
  }

 private:
  struct Kept {
    Digest key;
    std::shared_ptr<void> value;
    uint64_t bytes;
    uint64_t used;  // the clock when it was last used
  };
  using Recent = std::list<Kept>;

  struct alignas(64) Shard {
    mutable absl::Mutex mutex;
    Recent recent ABSL_GUARDED_BY(mutex);  // most recently used first
    absl::flat_hash_map<Digest, Recent::iterator> entries ABSL_GUARDED_BY(mutex);
    // Those who wait for a computation; the first of them started it.
    absl::flat_hash_map<Digest, std::vector<Waiter>> flights ABSL_GUARDED_BY(mutex);
  };

  // Exact under the shard's lock, without which nobody gets hold of it.
  static bool IsIdle(const Kept& kept) { return kept.value.use_count() == 1; }

  bool EraseIfIdleSince(const Digest& key, uint64_t used) {
    Shard& shard = ShardOf(key);
    std::shared_ptr<void> dropped;  // destroyed after the lock
    absl::MutexLock lock(&shard.mutex);
    const auto it = shard.entries.find(key);
    if (it == shard.entries.end() || it->second->used != used || !IsIdle(*it->second)) return false;
    dropped = DropLocked(shard, it->second);
    Add(evictions_);
    return true;
  }

  // One computation under way. It ends once: by its outcome, or by being
  // forgotten.
  class Flight {
   public:
    Flight(std::shared_ptr<Impl> cache, const Digest& key) : cache_(std::move(cache)), key_(key) {}
    ~Flight() {
      if (cache_ != nullptr) Land(MakeError(v1::INTERNAL_FAULT, "the computation was given up without an outcome"));
    }
    void Land(absl::StatusOr<Entry> entry) {
      KILN_CHECK(cache_ != nullptr);
      std::exchange(cache_, nullptr)->Finished(key_, std::move(entry));
    }

   private:
    std::shared_ptr<Impl> cache_;
    const Digest key_;
  };

  // The key is a digest, so any of its bytes is as good as a hash.
  Shard& ShardOf(const Digest& key) { return shards_[key.bytes[0] % kShards]; }

  std::shared_ptr<void> FindLocked(Shard& shard, const Digest& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex) {
    const auto it = shard.entries.find(key);
    if (it == shard.entries.end()) return nullptr;
    it->second->used = clock_.fetch_add(1, std::memory_order_relaxed);
    shard.recent.splice(shard.recent.begin(), shard.recent, it->second);
    return it->second->value;
  }

  std::shared_ptr<void> DropLocked(Shard& shard, Recent::iterator kept) ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex) {
    bytes_ -= kept->bytes;
    --entries_;
    std::shared_ptr<void> value = std::move(kept->value);
    shard.entries.erase(kept->key);
    shard.recent.erase(kept);
    return value;
  }

  // Returns what it replaces.
  std::shared_ptr<void> KeepLocked(Shard& shard, const Digest& key, const Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shard.mutex) {
    const auto old = shard.entries.find(key);
    std::shared_ptr<void> dropped = old == shard.entries.end() ? nullptr : DropLocked(shard, old->second);
    const uint64_t now = clock_.fetch_add(1, std::memory_order_relaxed);
    shard.recent.push_front({key, entry.value, entry.bytes, now});
    shard.entries[key] = shard.recent.begin();
    bytes_ += entry.bytes;
    ++entries_;
    return dropped;
  }

  void Finished(const Digest& key, absl::StatusOr<Entry> entry) {
    if (!entry.ok()) Add(failures_);
    std::vector<Waiter> waiters;
    std::shared_ptr<void> dropped;  // destroyed after the lock
    {
      Shard& shard = ShardOf(key);
      absl::MutexLock lock(&shard.mutex);
      const auto flight = shard.flights.find(key);
      waiters = std::move(flight->second);
      shard.flights.erase(flight);
      if (entry.ok()) dropped = KeepLocked(shard, key, *entry);
    }
    for (size_t i = 0; i < waiters.size(); ++i) {
      const CacheOutcome how = i == 0 ? CacheOutcome::kComputed : CacheOutcome::kJoined;
      if (!entry.ok()) {
        waiters[i](entry.status(), how);
      } else if (i + 1 < waiters.size()) {
        waiters[i](entry->value, how);
      } else {
        // Nothing here holds it any more: whoever has let go of it may want it erased.
        waiters[i](std::move(entry->value), how);
      }
    }
    if (bytes_ > limit_bytes_) Evict();
  }

  // Drops the least recently used of all shards until the rest fits. One thread
  // at a time, and only after something was made, so it may take its time.
  void Evict() {
    absl::MutexLock evicting(&evict_mutex_);
    while (bytes_ > limit_bytes_) {
      Shard* oldest = nullptr;
      uint64_t used = ~uint64_t{0};
      for (Shard& shard : shards_) {
        absl::MutexLock lock(&shard.mutex);
        if (shard.recent.empty() || shard.recent.back().used >= used) continue;
        used = shard.recent.back().used;
        oldest = &shard;
      }
      if (oldest == nullptr) return;
      std::shared_ptr<void> dropped;  // destroyed after the shard's lock
      absl::MutexLock lock(&oldest->mutex);
      if (oldest->recent.empty()) continue;
      dropped = DropLocked(*oldest, std::prev(oldest->recent.end()));
      Add(evictions_);
    }
  }

  const uint64_t limit_bytes_;
  std::array<Shard, kShards> shards_;
  absl::Mutex evict_mutex_;
  Counter clock_{1}, hits_{0}, misses_{0}, computations_{0}, failures_{0}, evictions_{0}, entries_{0}, bytes_{0};
};

ProgramCacheCore::ProgramCacheCore(uint64_t limit_bytes) : impl_(std::make_shared<Impl>(limit_bytes)) {}
ProgramCacheCore::~ProgramCacheCore() = default;

std::shared_ptr<void> ProgramCacheCore::Find(const Digest& key) { return impl_->Find(key); }
void ProgramCacheCore::GetOrStart(const Digest& key, absl::AnyInvocable<void(Finish)> start, Waiter waiter) {
  impl_->GetOrStart(key, std::move(start), std::move(waiter));
}
void ProgramCacheCore::Put(const Digest& key, Entry entry) { impl_->Put(key, std::move(entry)); }
bool ProgramCacheCore::Erase(const Digest& key) { return impl_->Erase(key); }
void ProgramCacheCore::EraseIdle(absl::FunctionRef<bool(const void*)> may, absl::FunctionRef<bool()> enough) {
  impl_->EraseIdle(may, enough);
}
std::vector<std::pair<Digest, std::shared_ptr<void>>> ProgramCacheCore::List() const { return impl_->List(); }
CacheStats ProgramCacheCore::stats() const { return impl_->stats(); }

}  // namespace kiln::runtime
