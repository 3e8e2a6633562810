// Names that cannot be guessed.
#ifndef KILN_SERVER_ENGINE_MEMORY_RANDOM_HANDLES_H_
#define KILN_SERVER_ENGINE_MEMORY_RANDOM_HANDLES_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace kiln::server {

// 64-bit numbers from the operating system's generator for secrets, fetched in
// batches. Never 0. Safe from any thread.
class RandomHandles {
 public:
  uint64_t Next();

 private:
  // Several pools, so that callers seldom meet at one lock.
  static constexpr size_t kPools = 8;
  struct alignas(64) Pool {
    absl::Mutex mutex;
    std::array<uint64_t, 32> numbers ABSL_GUARDED_BY(mutex);
    size_t left ABSL_GUARDED_BY(mutex) = 0;
  };
  std::array<Pool, kPools> pools_;
  std::atomic<uint32_t> next_pool_{0};
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_RANDOM_HANDLES_H_
