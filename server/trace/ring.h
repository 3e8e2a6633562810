// The last records that threads have written, in memory of fixed size.
//
// A thread writes into the shard of the core that it runs on: it takes the shard's next slot, which
// forgets the oldest record there. A slot has a version, odd while somebody writes it. Who reads
// copies a slot and keeps the copy if the version was even and is the same after it (a seqlock); so
// nobody waits for anybody. A writer that finds its slot being written, which takes a thread that was
// stopped in the middle while the others went all the way round, drops its record and counts it.
#ifndef KILN_SERVER_TRACE_RING_H_
#define KILN_SERVER_TRACE_RING_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "server/metrics/cells.h"

namespace kiln::server {

// Safe from any thread.
template <typename Record>
class Ring {
 public:
  // All records together take at most `bytes`; none are kept if that is too little for one a shard.
  explicit Ring(size_t bytes, size_t shards = Cells::kShards) : slots_(bytes / shards / sizeof(Slot)), shards_(shards) {
    for (Shard& shard : shards_) shard.slots = std::make_unique<Slot[]>(slots_);
  }

  bool keeps() const { return slots_ > 0; }

  // Allocates nothing, takes no lock.
  void Write(const Record& record) {
    if (!keeps()) return;
    Shard& shard = shards_[Cells::Shard() % shards_.size()];
    Slot& slot = shard.slots[shard.next.fetch_add(1, std::memory_order_relaxed) % slots_];
    uint64_t version = slot.version.load(std::memory_order_relaxed);
    if (version % 2 == 1 || !slot.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire)) {
      dropped_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    std::atomic_thread_fence(std::memory_order_release);  // whoever sees a word below sees the odd version
    Words words;
    std::memcpy(words.data(), &record, sizeof(Record));
    for (size_t i = 0; i < kWords; ++i) slot.words[i].store(words[i], std::memory_order_relaxed);
    slot.version.store(version + 2, std::memory_order_release);
  }

  // Calls `seen` with a copy of each record that is there; each shard's oldest first.
  template <typename Seen>
  void Read(const Seen& seen) const {
    for (const Shard& shard : shards_) {
      const uint64_t next = shard.next.load(std::memory_order_relaxed);
      for (uint64_t at = next < slots_ ? 0 : next - slots_; at < next; ++at) {
        Record record;
        if (Copy(shard.slots[at % slots_], record)) seen(record);
      }
    }
  }

  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) % sizeof(uint64_t) == 0);
  static constexpr size_t kWords = sizeof(Record) / sizeof(uint64_t);
  using Words = std::array<uint64_t, kWords>;

  struct Slot {
    std::atomic<uint64_t> version{0};  // 0: never written
    std::array<std::atomic<uint64_t>, kWords> words{};
  };
  struct alignas(64) Shard {
    std::atomic<uint64_t> next{0};
    std::unique_ptr<Slot[]> slots;
  };

  static bool Copy(const Slot& slot, Record& record) {
    const uint64_t version = slot.version.load(std::memory_order_acquire);
    if (version == 0 || version % 2 == 1) return false;
    Words words;
    for (size_t i = 0; i < kWords; ++i) words[i] = slot.words[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.version.load(std::memory_order_relaxed) != version) return false;
    std::memcpy(static_cast<void*>(&record), words.data(), sizeof(Record));
    return true;
  }

  const size_t slots_;  // of each shard
  std::vector<Shard> shards_;
  std::atomic<uint64_t> dropped_{0};
};

}  // namespace kiln::server

#endif  // KILN_SERVER_TRACE_RING_H_
