// A parallel loop with no allocation and no lock.
//
// N-1 workers, each pinned to a core, wait for a loop; the thread that submits
// one works on it too, so a pool of one thread has no worker at all. Iterations
// are handed out in chunks by one atomic counter. A worker that wakes late does
// no harm: the loop ends when its iterations are done and the workers that
// joined have left, and nobody can join after that.
#ifndef KILN_RUNTIME_DRIVERS_CPU_WORKER_POOL_H_
#define KILN_RUNTIME_DRIVERS_CPU_WORKER_POOL_H_

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace kiln::runtime::cpu {

class WorkerPool {
 public:
  struct Options {
    // The submitting thread included; 0 means one for each core that this
    // process may use.
    uint32_t threads = 0;
    // How often a worker looks for a new loop before it sleeps.
    uint32_t spins = 2000;
    // Pins worker i to the (i+1)th of the cores this process may use.
    bool pin = true;
  };

  explicit WorkerPool(const Options& options);
  // No loop may be running.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Calls fn(begin, end) over disjoint chunks that cover [0, iterations), on
  // this thread and the workers, and returns when all calls have. A chunk has at
  // least `grain` iterations but for the last. A loop of no more than `grain`
  // iterations is one call on this thread, and so is one that finds the pool
  // taken by another thread or by a loop around it.
  template <typename Fn>
  void ParallelFor(int64_t iterations, int64_t grain, const Fn& fn) {
    if (iterations <= 0) return;
    if (iterations <= grain || workers_.empty() || busy_.exchange(true, std::memory_order_acquire)) {
      fn(int64_t{0}, iterations);
      return;
    }
    RunShared(iterations, grain, [](const void* f, int64_t b, int64_t e) { (*static_cast<const Fn*>(f))(b, e); }, &fn);
    busy_.store(false, std::memory_order_release);
  }

  // The submitting thread included.
  uint32_t threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

 private:
  using Body = void (*)(const void* fn, int64_t begin, int64_t end);

  void RunShared(int64_t iterations, int64_t grain, Body body, const void* fn);
  void RunChunks();
  void WorkerMain(uint32_t index);

  const Options options_;

  // The loop that runs: written while `state_` is closed and nobody is joined.
  Body body_ = nullptr;
  const void* fn_ = nullptr;
  int64_t iterations_ = 0;
  int64_t chunk_ = 1;
  alignas(64) std::atomic<int64_t> next_{0};

  // Bit 31: open to join. Bits 0..30: workers inside. Bits 32..63: the loop's
  // number, so that a worker that saw an older loop cannot join a newer one
  // without looking again.
  alignas(64) std::atomic<uint64_t> state_{0};
  // Rises with every loop and at the end: what sleeping workers sleep on.
  alignas(64) std::atomic<uint32_t> wake_{0};
  std::atomic<bool> stopping_{false};
  // Whether a thread is in RunShared.
  alignas(64) std::atomic<bool> busy_{false};

  std::vector<std::thread> workers_;
};

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_WORKER_POOL_H_
