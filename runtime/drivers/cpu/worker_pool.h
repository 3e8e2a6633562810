// Parallel loops with no allocation and no lock.
//
// N-1 workers wait for loops; the thread that submits
// one works on it too, so a pool of one thread has no worker at all. Iterations
// are handed out in chunks by one atomic counter. A worker that wakes late does
// no harm: the loop ends when its iterations are done and the workers that
// joined have left, and none can join after that.
//
// Several devices may share a pool, and then their loops run at once: each has
// its submitting thread, and the workers are shared out evenly among them. There
// are only as many helpers as leave a core to each submitter, so two devices on
// two cores have one each, and one of them alone has both. A worker that is one
// too many for its loop leaves it after the chunk it has.
//
// Systems like to wake a thread on the core of the one that wakes it. There a worker
// would not run before its submitter has done all the work, or a balancer has come by,
// milliseconds later. So, where there is a core for each, workers are kept off the
// submitter's.
#ifndef KILN_RUNTIME_DRIVERS_CPU_WORKER_POOL_H_
#define KILN_RUNTIME_DRIVERS_CPU_WORKER_POOL_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

namespace kiln::runtime::cpu {

class WorkerPool {
 public:
  struct Options {
    // The submitting thread included; 0 means as many as the process may use
    // (machine.h).
    uint32_t threads = 0;
    // How often a worker looks for a new loop before it sleeps.
    uint32_t spins = 2000;
    // Most loops that workers help with at once; at least 1.
    uint32_t loops = 1;
  };

  explicit WorkerPool(const Options& options);
  // No loop may be running.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Calls fn(begin, end) over disjoint chunks that cover [0, iterations), on
  // this thread and workers, and returns when all calls have. A chunk has at
  // least `grain` iterations but for the last. A loop of no more than `grain`
  // iterations is one call on this thread, and so is one that finds
  // Options::loops others running.
  // `more_ns`, if not null, gets for how long this thread waited at the end for a helper that had a core: no longer
  // than the one had that had one longest, and but for where this thread had one itself; 0 if none helped.
  template <typename Fn>
  void ParallelFor(int64_t iterations, int64_t grain, const Fn& fn, int64_t* more_ns = nullptr) {
    if (more_ns != nullptr) *more_ns = 0;
    if (iterations <= 0) return;
    Loop* const loop = iterations <= grain || workers_.empty() ? nullptr : Take();
    if (loop == nullptr) {
      fn(int64_t{0}, iterations);
      return;
    }
    RunShared(*loop, {0, iterations, EvenChunk(iterations, grain)}, Call<Fn>, &fn, nullptr, more_ns);
    loop->busy.store(false, std::memory_order_release);
  }

  // Iterations from `begin` to before `end`, of which a chunk has up to `chunk`.
  struct Range {
    int64_t begin = 0;
    int64_t end = 0;
    int64_t chunk = 1;
  };
  // The same over a part of the iterations, which is left before its end once `leave()`, which each thread asks after
  // each of its chunks, is true: whichever has a core sees it. Returns where what has not been done begins: all before
  // it has been, and nothing after it.
  // `more_ns` as there.
  template <typename Fn>
  int64_t ParallelForUntil(const Range& range, const Fn& fn, absl::FunctionRef<bool()> leave,
                           int64_t* more_ns = nullptr) {
    Loop* const loop = range.end - range.begin <= range.chunk || workers_.empty() ? nullptr : Take();
    if (loop != nullptr) {
      const int64_t rest = RunShared(*loop, range, Call<Fn>, &fn, &leave, more_ns);
      loop->busy.store(false, std::memory_order_release);
      return rest;
    }
    if (more_ns != nullptr) *more_ns = 0;
    int64_t begin = range.begin;
    while (begin < range.end) {
      const int64_t end = std::min(range.end - begin, range.chunk) + begin;
      fn(begin, end);
      begin = end;
      if (leave()) break;
    }
    return begin;
  }

  // So many that threads of different speeds end at about the same time; no more than `most`, which is at least 1,
  // unless the grain is. Each thread gets about as many chunks: where all are as fast, none waits for another's last.
  int64_t EvenChunk(int64_t iterations, int64_t grain, int64_t most = INT64_MAX) const {
    const int64_t of_each = iterations / int64_t{threads()};
    const int64_t chunks = std::max(kChunksPerThread, of_each / most + (of_each % most != 0));
    return std::max({grain, int64_t{1}, of_each / chunks});
  }

  // The submitting thread included.
  uint32_t threads() const { return static_cast<uint32_t>(workers_.size()) + 1; }

 private:
  // Chunks a thread should get, on average: enough to even out threads that run
  // at different speeds, few enough that the counter costs nothing.
  static constexpr int64_t kChunksPerThread = 8;

  using Body = void (*)(const void* fn, int64_t begin, int64_t end);
  template <typename Fn>
  static void Call(const void* fn, int64_t begin, int64_t end) {
    (*static_cast<const Fn*>(fn))(begin, end);
  }

  // A place for a loop. The plain fields are written while `state` is closed and
  // no worker is inside.
  struct Loop {
    Body body = nullptr;
    const void* fn = nullptr;
    Range range;
    absl::FunctionRef<bool()>* leave = nullptr;
    bool timed = false;                  // how long helpers have their cores
    std::atomic<int64_t> longest_ns{0};  // that one of them had
    std::atomic<int64_t> rest{0};        // where what is not done begins
    alignas(64) std::atomic<int64_t> next{0};
    // Bit 31: open to join. Bits 0..30: workers inside. Bits 32..63: the loop's
    // number, so that a worker that saw an older loop cannot join a newer one
    // without looking again.
    alignas(64) std::atomic<uint64_t> state{0};
    // Whether a thread has the place.
    alignas(64) std::atomic<bool> busy{false};
  };

  // A place that is free, or null.
  Loop* Take() {
    for (uint32_t i = 0; i < options_.loops; ++i) {
      if (!loops_[i].busy.load(std::memory_order_relaxed) &&
          !loops_[i].busy.exchange(true, std::memory_order_acquire)) {
        return &loops_[i];
      }
    }
    return nullptr;
  }
  // As ParallelForUntil; `leave` may be null.
  int64_t RunShared(Loop& loop, const Range& range, Body body, const void* fn, absl::FunctionRef<bool()>* leave,
                    int64_t* more_ns);
  // Takes a chunk and runs it; false if there was none, or the loop is to be left.
  static bool RunChunk(Loop& loop);
  void WakeWorkers();
  // Keeps the workers off the core on which this thread runs, if there is one for each elsewhere.
  void KeepOff();

  // -- A worker's
  // Joins a loop that can use one more helper, other than those it has seen the
  // end of; null if there is none.
  Loop* Join(const std::vector<uint64_t>& finished);
  // Whether `loop` has more helpers than its share, or all loops together.
  bool TooMany(const Loop& loop) const;
  void WorkerMain();

  const Options options_;
  const std::unique_ptr<Loop[]> loops_;
  // Loops that run, and workers inside any of them.
  alignas(64) std::atomic<uint32_t> active_{0};
  std::atomic<uint32_t> helpers_{0};

  // Rises with every loop and at the end: what sleeping workers sleep on.
  alignas(64) std::atomic<uint32_t> wake_{0};
  std::atomic<bool> stopping_{false};

  std::vector<std::thread> workers_;
  const std::vector<uint32_t> cores_;  // that this process may use
  std::atomic<int> kept_off_{-1};      // the core, or -1
};

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_WORKER_POOL_H_
