#include "server/metrics/cells.h"

#include <sched.h>

#include "base/check.h"

namespace kiln::server {

// A line between two shards, since what calloc gives need not begin with one.
Cells::Cells(size_t count)
    : stride_((count + kLine - 1) / kLine * kLine + kLine),
      numbers_(static_cast<uint64_t*>(std::calloc(stride_ * kShards, sizeof(uint64_t)))) {
  KILN_CHECK(numbers_ != nullptr);
}

size_t Cells::Shard() {
  const int core = sched_getcpu();
  return core < 0 ? 0 : static_cast<size_t>(core) % kShards;
}

uint64_t Cells::Sum(size_t cell) const {
  uint64_t sum = 0;
  for (size_t shard = 0; shard < kShards; ++shard)
    sum += std::atomic_ref<uint64_t>(numbers_.get()[shard * stride_ + cell]).load(std::memory_order_relaxed);
  return sum;
}

}  // namespace kiln::server
