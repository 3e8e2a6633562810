// How a run lets others have its device for a while, between two slices of its work.
#ifndef KILN_RUNTIME_HAL_INTERRUPTION_H_
#define KILN_RUNTIME_HAL_INTERRUPTION_H_

#include <atomic>

#include "absl/time/time.h"
#include "base/clock.h"
#include "runtime/hal/core_time.h"

namespace kiln::runtime::hal {

// Made by whoever orders the work of a device, and looked at by the thread that runs it, where a stop would be cheap:
// between launches, and between chunks of a long one.
class Interruption {
 public:
  virtual ~Interruption() = default;

  // Whether the run has had its slice and somebody else waits. Costs a load while nobody does.
  bool due() const { return asked() && SteadyNow() >= until_; }
  // Whether somebody else waits.
  bool asked() const { return asked_.load(std::memory_order_relaxed); }
  absl::Duration slice() const { return slice_; }

  // Nothing of the run may be under way on any thread. Blocks while others have the device (Queue::Pause), or returns
  // at once.
  virtual void GiveWay() = 0;

  // For how long others had the device within the run, so far. For the run's own thread, until it has ended.
  absl::Duration away() const { return away_; }

  // The run's thread begins to work, or goes on: a slice begins, of which it is counted what it has of its cores. While
  // nobody else waits it costs a load, and counts by the clock.
  void BeginWork() {
    if (asked()) {
      until_ = SteadyNow() + slice_;
      cores_.Begin();
    }
    works_.store(true, std::memory_order_release);  // from now on others may ask what it has had
  }
  // It pauses, or has ended.
  void EndWork() { cores_.End(); }
  // Whether it has begun, and what it has had since has not been settled. Any thread.
  bool works() const { return works_.load(std::memory_order_acquire); }
  CoreTime& cores() { return cores_; }
  const CoreTime& cores() const { return cores_; }

 protected:
  // Whether somebody waits: it outlives this.
  explicit Interruption(const std::atomic<bool>& asked) : asked_(asked) {}

  // What it had, by the clock or of its cores, has been counted.
  void Settled() {
    works_.store(false, std::memory_order_relaxed);
    cores_.Forget();
  }

  absl::Duration slice_;
  absl::Time until_ = absl::InfinitePast();  // the slice lasts
  absl::Duration away_;

 private:
  const std::atomic<bool>& asked_;
  std::atomic<bool> works_{false};
  CoreTime cores_;
};

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_INTERRUPTION_H_
