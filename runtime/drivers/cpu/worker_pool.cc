#include "runtime/drivers/cpu/worker_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"
#include "runtime/drivers/cpu/machine.h"
#include "runtime/hal/core_time.h"

namespace kiln::runtime::cpu {
namespace {

constexpr uint64_t kOpen = uint64_t{1} << 31;
constexpr uint64_t kInside = kOpen - 1;  // mask of the count of workers
constexpr int kLoopShift = 32;

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How many helpers all loops may have together, so that no submitter is without
// a core.
inline uint32_t MaxHelpers(uint32_t threads, uint32_t active) { return threads > active ? threads - active : 0; }

}  // namespace

WorkerPool::WorkerPool(const Options& options)
    : options_(options), loops_(new Loop[options.loops]), cores_(UsableCores()) {
  KILN_CHECK(options.loops > 0);
  const uint32_t threads = options.threads != 0 ? options.threads : UsableThreads();
  // All of them first: they read its size.
  workers_.resize(threads - 1);
  for (std::thread& worker : workers_) {
    worker = std::thread([this] { WorkerMain(); });
    pthread_setname_np(worker.native_handle(), "kiln-worker");
  }
}

WorkerPool::~WorkerPool() {
  KILN_CHECK(active_.load(std::memory_order_acquire) == 0);
  stopping_.store(true, std::memory_order_release);
  WakeWorkers();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::WakeWorkers() {
  wake_.fetch_add(1, std::memory_order_release);
  wake_.notify_all();
}

void WorkerPool::KeepOff() {
  const int core = sched_getcpu();
  if (core < 0 || core >= CPU_SETSIZE || core == kept_off_.load(std::memory_order_relaxed)) return;
  kept_off_.store(core, std::memory_order_relaxed);
  if (cores_.size() <= workers_.size()) return;
  cpu_set_t others;
  CPU_ZERO(&others);
  for (const uint32_t other : cores_) {
    if (other < CPU_SETSIZE && other != static_cast<uint32_t>(core)) CPU_SET(other, &others);
  }
  // May fail, in a container that forbids it; the system then places the workers.
  for (std::thread& worker : workers_)
    static_cast<void>(pthread_setaffinity_np(worker.native_handle(), sizeof(others), &others));
}

int64_t WorkerPool::RunShared(Loop& loop, const Range& range, Body body, const void* fn,
                              absl::FunctionRef<bool()>* leave, int64_t* more_ns) {
  loop.body = body;
  loop.fn = fn;
  loop.range = range;
  loop.timed = more_ns != nullptr;
  loop.longest_ns.store(0, std::memory_order_relaxed);
  loop.next.store(range.begin, std::memory_order_relaxed);
  loop.leave = leave;
  loop.rest.store(range.end, std::memory_order_relaxed);
  // The closed state of the loop before, with nobody inside, becomes the open
  // state of this one; that publishes the fields above.
  const uint64_t number = (loop.state.load(std::memory_order_relaxed) >> kLoopShift) + 1;
  loop.state.store(number << kLoopShift | kOpen, std::memory_order_release);
  const uint32_t active = active_.fetch_add(1, std::memory_order_acq_rel) + 1;
  if (active == 1) KeepOff();
  if (MaxHelpers(threads(), active) > 0) WakeWorkers();

  while (RunChunk(loop)) {
  }
  const int64_t own_ns = loop.timed ? hal::CoreTime::ThreadNs() : 0;
  const absl::Time wait_began = loop.timed ? SteadyNow() : absl::Time();

  uint64_t state = loop.state.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  for (uint32_t spin = 0; (state & kInside) != 0; ++spin) {
    if (spin < options_.spins) {
      Pause();
    } else {
      loop.state.wait(state, std::memory_order_acquire);
    }
    state = loop.state.load(std::memory_order_acquire);
  }
  if (loop.timed) {
    const int64_t waited_ns = absl::ToInt64Nanoseconds(SteadyNow() - wait_began);
    const int64_t helped_ns = std::min(waited_ns, loop.longest_ns.load(std::memory_order_relaxed));
    *more_ns = std::max<int64_t>(0, helped_ns - (hal::CoreTime::ThreadNs() - own_ns));  // but for where it spun itself
  }
  // The others may now have more helpers, who may be asleep.
  if (active_.fetch_sub(1, std::memory_order_acq_rel) > 1) WakeWorkers();
  return loop.rest.load(std::memory_order_relaxed);
}

bool WorkerPool::RunChunk(Loop& loop) {
  const auto [first, last, chunk] = loop.range;
  const int64_t begin = loop.next.fetch_add(chunk, std::memory_order_relaxed);
  // Each visit of a thread steps past the end at most once, so the counter cannot
  // wrap unless the end is within a few chunks of 2^63.
  if (begin >= last) return false;
  loop.body(loop.fn, begin, std::min(last - begin, chunk) + begin);
  if (loop.leave == nullptr || !(*loop.leave)()) return true;
  // What has been handed out is done by whoever has it; nobody gets more.
  const int64_t rest = loop.next.exchange(last, std::memory_order_relaxed);
  if (rest < last) loop.rest.store(rest, std::memory_order_relaxed);
  return false;
}

bool WorkerPool::TooMany(const Loop& loop) const {
  if (options_.loops == 1) return false;
  const uint32_t active = std::max(active_.load(std::memory_order_acquire), 1u);
  const uint32_t max_helpers = MaxHelpers(threads(), active);
  const uint32_t share = (max_helpers + active - 1) / active;
  return helpers_.load(std::memory_order_relaxed) > max_helpers ||
         (loop.state.load(std::memory_order_relaxed) & kInside) > share;
}

WorkerPool::Loop* WorkerPool::Join(const std::vector<uint64_t>& finished) {
  for (uint32_t i = 0; i < options_.loops; ++i) {
    Loop& loop = loops_[i];
    uint64_t state = loop.state.load(std::memory_order_acquire);
    while ((state & kOpen) != 0 && (state >> kLoopShift) != finished[i]) {
      const uint32_t active = std::max(active_.load(std::memory_order_acquire), 1u);
      const uint32_t max_helpers = MaxHelpers(threads(), active);
      if (helpers_.load(std::memory_order_relaxed) >= max_helpers) return nullptr;
      if ((state & kInside) >= (max_helpers + active - 1) / active) break;
      if (!loop.state.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
      helpers_.fetch_add(1, std::memory_order_relaxed);
      return &loop;
    }
  }
  return nullptr;
}

void WorkerPool::WorkerMain() {
  // The number of the last loop in each place of which this worker saw the end.
  std::vector<uint64_t> finished(options_.loops, 0);
  uint32_t spins = 0;
  while (!stopping_.load(std::memory_order_acquire)) {
    // Read before the state: what can be joined after this changes it.
    const uint32_t wake = wake_.load(std::memory_order_acquire);
    if (Loop* const loop = Join(finished); loop != nullptr) {
      bool more = true;
      const bool timed = loop->timed;
      const int64_t began_ns = timed ? hal::CoreTime::ThreadNs() : 0;
      while (more && !TooMany(*loop)) more = RunChunk(*loop);
      if (!more) finished[loop - loops_.get()] = loop->state.load(std::memory_order_relaxed) >> kLoopShift;
      helpers_.fetch_sub(1, std::memory_order_relaxed);
      if (timed) {
        const int64_t had_ns = hal::CoreTime::ThreadNs() - began_ns;
        int64_t longest_ns = loop->longest_ns.load(std::memory_order_relaxed);
        while (longest_ns < had_ns &&
               !loop->longest_ns.compare_exchange_weak(longest_ns, had_ns, std::memory_order_relaxed)) {
        }
      }
      // The last one out of a closed loop wakes the submitter.
      const uint64_t left = loop->state.fetch_sub(1, std::memory_order_acq_rel) - 1;
      if ((left & (kOpen | kInside)) == 0) loop->state.notify_one();
      spins = 0;
    } else if (++spins < options_.spins) {
      Pause();
    } else if (!stopping_.load(std::memory_order_acquire)) {
      wake_.wait(wake, std::memory_order_acquire);
      spins = 0;
    }
  }
}

}  // namespace kiln::runtime::cpu
