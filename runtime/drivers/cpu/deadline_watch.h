// Says when deadlines have passed, to kernels that look at no clock.
//
// A kernel that is to stop looks at a byte, since a clock would cost more than what lies between
// two looks. For a cancellation that byte is there: whoever cancels sets it. For a deadline a
// thread of this object sets one. It sleeps until the next deadline that it knows of, so a run
// that ends in time, and whose deadline is not the next one, wakes nobody; and nothing ticks.
#ifndef KILN_RUNTIME_DRIVERS_CPU_DEADLINE_WATCH_H_
#define KILN_RUNTIME_DRIVERS_CPU_DEADLINE_WATCH_H_

#include <atomic>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace kiln::runtime::cpu {

// Safe from any thread. Its thread begins with the first deadline.
class DeadlineWatch {
 public:
  // A deadline, watched while this lives. Its watch outlives it.
  class Deadline {
   public:
    // Nothing is watched where it is InfiniteFuture.
    Deadline(DeadlineWatch& watch, absl::Time deadline);
    ~Deadline();
    Deadline(const Deadline&) = delete;
    Deadline& operator=(const Deadline&) = delete;

    // Becomes true once it has passed, and stays so.
    const std::atomic<bool>& passed() const { return passed_; }

   private:
    friend class DeadlineWatch;
    DeadlineWatch& watch_;
    const absl::Time deadline_;
    std::atomic<bool> passed_{false};
    // Of the list of all.
    Deadline* next_ = nullptr;
    Deadline** to_this_ = nullptr;
  };

  DeadlineWatch() = default;
  // No Deadline may be left.
  ~DeadlineWatch();
  DeadlineWatch(const DeadlineWatch&) = delete;
  DeadlineWatch& operator=(const DeadlineWatch&) = delete;

 private:
  void ThreadMain();

  absl::Mutex mutex_;
  Bell bell_;
  Deadline* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  absl::Time wakes_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // when the thread does by itself
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime::cpu

#endif  // KILN_RUNTIME_DRIVERS_CPU_DEADLINE_WATCH_H_
