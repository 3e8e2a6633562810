#include "server/engine/memory/random_handles.h"

#include <sys/random.h>

#include "base/check.h"

namespace kiln::server {

uint64_t RandomHandles::Next() {
  Pool& pool = pools_[next_pool_.fetch_add(1, std::memory_order_relaxed) % kPools];
  absl::MutexLock lock(&pool.mutex);
  for (;;) {
    if (pool.left == 0) {
      // Requests of up to 256 bytes come back whole once the system has booted.
      static_assert(sizeof(pool.numbers) <= 256);
      KILN_CHECK(getrandom(pool.numbers.data(), sizeof(pool.numbers), 0) == sizeof(pool.numbers));
      pool.left = pool.numbers.size();
    }
    const uint64_t number = pool.numbers[--pool.left];
    if (number != 0) return number;
  }
}

}  // namespace kiln::server
