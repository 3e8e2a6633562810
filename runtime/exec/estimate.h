// How long a run is expected to take: what decides whether it may run on the thread
// that submits it, and whether it can be done by its deadline.
#ifndef KILN_RUNTIME_EXEC_ESTIMATE_H_
#define KILN_RUNTIME_EXEC_ESTIMATE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace kiln::runtime {

// What cheap runs teach says nothing of a run that is given more to do: where that is possible, the
// estimate never falls below a floor.
//
// Safe from any thread. Racing updates may lose one another, which an estimate can bear.
class Estimate {
 public:
  explicit Estimate(uint64_t guess_ns = 0, uint64_t floor_ns = 0) : ns_(guess_ns), floor_ns_(floor_ns) {}

  uint64_t ns() const { return std::max(ns_.load(std::memory_order_relaxed), floor_ns_); }
  uint64_t floor_ns() const { return floor_ns_; }
  // What the runs say, or the guess: for who settles afterwards by what was measured.
  uint64_t expected_ns() const { return ns_.load(std::memory_order_relaxed); }
  // How far runs have been from that lately, on average.
  uint64_t spread_ns() const { return spread_ns_.load(std::memory_order_relaxed); }
  // No run has said anything yet.
  bool guessed() const { return !learned_.load(std::memory_order_relaxed); }
  // Runs that ended well.
  uint64_t runs() const { return runs_.load(std::memory_order_relaxed); }

  // One that ended well. The first touches cold memory and code, and so says little.
  void Observe(uint64_t device_ns) {
    if (runs_.fetch_add(1, std::memory_order_relaxed) != 0) Learn(device_ns);
  }
  // One that was stopped: it would have taken longer. Were it left out, a program that has become too slow for its
  // deadlines would be thought to be as quick as ever.
  void ObserveStopped(uint64_t device_ns) {
    if (device_ns > expected_ns()) Learn(device_ns);
  }

  // Before anyone else knows of it.
  void Guess(uint64_t ns, uint64_t floor_ns) {
    ns_.store(ns, std::memory_order_relaxed);
    floor_ns_ = floor_ns;
  }

 private:
  // The estimate follows the runs, but a single slow one (the thread lost its core) cannot raise it to even twice
  // itself. It falls faster: what is too high has its program's requests refused, and then few runs correct it.
  void Learn(uint64_t device_ns) {
    const uint64_t old_ns = expected_ns();
    const uint64_t seen_ns = std::min(device_ns, 4 * old_ns + 100);
    if (learned_.exchange(true, std::memory_order_relaxed)) {
      const uint64_t spread_ns = spread_ns_.load(std::memory_order_relaxed);
      const uint64_t apart_ns = std::max(seen_ns, old_ns) - std::min(seen_ns, old_ns);
      spread_ns_.store(spread_ns - spread_ns / 4 + apart_ns / 4, std::memory_order_relaxed);
    }
    const bool far_below = seen_ns < old_ns / 2;
    ns_.store(far_below ? old_ns / 2 + seen_ns / 2 : old_ns - old_ns / 4 + seen_ns / 4, std::memory_order_relaxed);
  }

  std::atomic<uint64_t> ns_;
  uint64_t floor_ns_;
  std::atomic<uint64_t> spread_ns_{0};
  std::atomic<uint64_t> runs_{0};
  std::atomic<bool> learned_{false};
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_ESTIMATE_H_
