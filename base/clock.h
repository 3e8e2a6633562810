// The time in which deadlines, leases and measurements are: no setting of the system's clock moves one.
//
// Abseil's clock and its waits with a timeout go by the system's clock. When that is set ahead, deadlines pass; when
// it is set back, who waits for a second waits an hour. So what is counted from now on is counted by SteadyNow(), and
// a thread that looks from time to time sleeps by a Bell. What a calendar says, such as the end of a token, stays with
// absl::Now().
#ifndef KILN_BASE_CLOCK_H_
#define KILN_BASE_CLOCK_H_

#include <condition_variable>
#include <mutex>

#include "absl/time/time.h"

namespace kiln {

// The system's time when it was first asked, and from then on what CLOCK_MONOTONIC adds. Any thread.
absl::Time SteadyNow();

// What a thread sleeps by until it is rung for, or until some time has passed. Threads: any; one waits.
class Bell {
 public:
  // Ends the wait that is under way, or else the next one.
  void Ring();
  // Whether it rang; false after `timeout`, which may be infinite. The caller holds no lock.
  bool Wait(absl::Duration timeout);

 private:
  std::mutex mutex_;
  std::condition_variable rang_;
  bool rung_ = false;
};

}  // namespace kiln

#endif  // KILN_BASE_CLOCK_H_
