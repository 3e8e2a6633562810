// Ends a process that does not end by itself in time.
//
// A compilation that has begun runs to its end, which may be far away; a server that was
// told to stop must stop all the same.
#ifndef KILN_SERVER_PROCESS_WATCHDOG_H_
#define KILN_SERVER_PROCESS_WATCHDOG_H_

#include <functional>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace kiln::server {

// While one lives, time runs: after `timeout` it calls `give_up`, on a thread of its
// own. Destroyed before, it calls nothing.
class Watchdog {
 public:
  Watchdog(absl::Duration timeout, std::function<void()> give_up)
      : thread_([this, timeout, give_up = std::move(give_up)] {
          if (!in_time_.WaitForNotificationWithTimeout(timeout)) give_up();
        }) {}
  ~Watchdog() {
    in_time_.Notify();
    thread_.join();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  absl::Notification in_time_;
  std::thread thread_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_PROCESS_WATCHDOG_H_
