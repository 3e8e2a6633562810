// Numbers that many threads add to and few read.
//
// Each number is the sum of kShards: a thread adds to the shard of the core that it runs on, so
// threads on different cores touch different lines of the cache, and adding is one relaxed
// addition. Who reads adds the shards up and holds nobody up; a sum is exact once those who added
// have stopped, and never goes down.
#ifndef KILN_SERVER_METRICS_CELLS_H_
#define KILN_SERVER_METRICS_CELLS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace kiln::server {

// Safe from any thread.
class Cells {
 public:
  static constexpr size_t kShards = 16;

  explicit Cells(size_t count);

  void Add(size_t cell, uint64_t amount) { AddIn(Shard(), cell, amount); }
  // For several additions by one thread in a row: `shard` is Shard().
  void AddIn(size_t shard, size_t cell, uint64_t amount) {
    std::atomic_ref<uint64_t>(numbers_.get()[shard * stride_ + cell]).fetch_add(amount, std::memory_order_relaxed);
  }
  uint64_t Sum(size_t cell) const;

  // Below kShards.
  static size_t Shard();

 private:
  static constexpr size_t kLine = 64 / sizeof(uint64_t);

  struct Free {
    void operator()(uint64_t* numbers) const { std::free(numbers); }
  };

  const size_t stride_;  // whole lines
  // From the system, which finds memory for those pages alone that are added to.
  const std::unique_ptr<uint64_t, Free> numbers_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_METRICS_CELLS_H_
