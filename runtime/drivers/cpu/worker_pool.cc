#include "runtime/drivers/cpu/worker_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "base/check.h"
#include "runtime/drivers/cpu/machine.h"

namespace kiln::runtime::cpu {
namespace {

constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kInside = kOpen - 1;  // mask of the count of workers
constexpr int kLoopShift = 32;

// Chunks a thread should get, on average: enough to even out threads that run
// at different speeds, few enough that the counter costs nothing.
constexpr int64_t kChunksPerThread = 8;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// May fail, in a container that forbids it; the pool then works unpinned.
void PinThisThread(uint32_t core) {
  if (core >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  static_cast<void>(pthread_setaffinity_np(pthread_self(), sizeof(set), &set));
}

}  // namespace

WorkerPool::WorkerPool(const Options& options) : options_(options) {
  const uint32_t threads = options.threads != 0 ? options.threads : static_cast<uint32_t>(UsableCores().size());
  workers_.reserve(threads - 1);
  for (uint32_t i = 0; i + 1 < threads; ++i) {
    workers_.emplace_back([this, i] { WorkerMain(i); });
    pthread_setname_np(workers_.back().native_handle(), "kiln-worker");
  }
}

WorkerPool::~WorkerPool() {
  KILN_CHECK(!busy_.load(std::memory_order_acquire));
  stopping_.store(true, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::RunShared(int64_t iterations, int64_t grain, Body body, const void* fn) {
  body_ = body;
  fn_ = fn;
  iterations_ = iterations;
  chunk_ = std::max({grain, int64_t{1}, iterations / (int64_t{threads()} * kChunksPerThread)});
  next_.store(0, std::memory_order_relaxed);
  // The closed state of the loop before, with nobody inside, becomes the open
  // state of this one; that publishes the fields above.
  const uint64_t loop = (state_.load(std::memory_order_relaxed) >> kLoopShift) + 1;
  state_.store(loop << kLoopShift | kOpen, std::memory_order_release);
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();

  RunChunks();

  uint64_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  for (uint32_t spin = 0; (state & kInside) != 0; ++spin) {
    if (spin < options_.spins) {
      Pause();
    } else {
      state_.wait(state, std::memory_order_acquire);
    }
    state = state_.load(std::memory_order_acquire);
  }
}

void WorkerPool::RunChunks() {
  const int64_t chunk = chunk_;
  const int64_t iterations = iterations_;
  for (;;) {
    const int64_t begin = next_.fetch_add(chunk, std::memory_order_relaxed);
    // Each thread steps past the end at most once, so the counter cannot wrap
    // unless `iterations` is within a few chunks of 2^63.
    if (begin >= iterations) return;
    body_(fn_, begin, std::min(iterations - begin, chunk) + begin);
  }
}

void WorkerPool::WorkerMain(uint32_t index) {
  if (options_.pin) {
    const std::vector<uint32_t> cores = UsableCores();
    PinThisThread(cores[(index + 1) % cores.size()]);
  }
  uint64_t finished = 0;  // the number of the last loop this worker was in
  uint32_t spins = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    // Read before the state: a loop that opens after this changes it.
    const uint32_t wake = wake_.load(std::memory_order_acquire);
    uint64_t state = state_.load(std::memory_order_acquire);
    const bool fresh = (state & kOpen) != 0 && (state >> kLoopShift) != finished;
    if (fresh && state_.compare_exchange_strong(state, state + 1, std::memory_order_acq_rel)) {
      RunChunks();
      finished = state >> kLoopShift;
      // The last one out of a closed loop wakes the submitter.
      const uint64_t left = state_.fetch_sub(1, std::memory_order_acq_rel) - 1;
      if ((left & (kOpen | kInside)) == 0) state_.notify_one();
      spins = 0;
    } else if (fresh || ++spins < options_.spins) {
      Pause();
    } else if (!stopping_.load(std::memory_order_acquire)) {
      wake_.wait(wake, std::memory_order_acquire);
      spins = 0;
    }
  }
}

}  // namespace kiln::runtime::cpu
