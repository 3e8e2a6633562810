// How long a run is expected to take: what decides whether it may run on the thread
// that submits it.
#ifndef KILN_RUNTIME_EXEC_ESTIMATE_H_
#define KILN_RUNTIME_EXEC_ESTIMATE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace kiln::runtime {

// What cheap runs teach says nothing of a run that is given more to do: where that is possible, the
// estimate never falls below a floor.
//
// Safe from any thread.
class Estimate {
 public:
  explicit Estimate(uint64_t guess_ns = 0, uint64_t floor_ns = 0) : ns_(guess_ns), floor_ns_(floor_ns) {}

  uint64_t ns() const { return std::max(ns_.load(std::memory_order_relaxed), floor_ns_); }
  uint64_t floor_ns() const { return floor_ns_; }
  // What the runs say, or the guess: for who settles afterwards by what was measured.
  uint64_t expected_ns() const { return ns_.load(std::memory_order_relaxed); }
  // Runs that ended well.
  uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }

  // The first run touches cold memory and code, and so says little. After it the
  // estimate follows the runs, but a single slow one (the thread lost its core)
  // cannot raise it to even twice itself. Racing updates may lose one another,
  // which an estimate can bear.
  void Observe(uint64_t device_ns) {
    if (runs_.fetch_add(1, std::memory_order_relaxed) == 0) return;
    const uint64_t old_ns = ns_.load(std::memory_order_relaxed);
    const uint64_t seen_ns = std::min(device_ns, 4 * old_ns + 100);
    ns_.store(old_ns - old_ns / 4 + seen_ns / 4, std::memory_order_relaxed);
  }

  // Before anyone else knows of it.
  void Guess(uint64_t ns, uint64_t floor_ns) {
    ns_.store(ns, std::memory_order_relaxed);
    floor_ns_ = floor_ns;
  }

 private:
  std::atomic<uint64_t> ns_;
  uint64_t floor_ns_;
  std::atomic<uint64_t> runs_{0};
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_ESTIMATE_H_
