// The server as it is now, for people: one message, which DebugService.State and the pages for operators give.
//
// It is put together when somebody asks, from numbers that are there anyway; but one thread notes each second who had
// how much of the devices (share_history.h).
#ifndef KILN_SERVER_STATE_STATE_H_
#define KILN_SERVER_STATE_STATE_H_

#include <cstdint>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kiln/v1/state.pb.h"
#include "server/state/share_history.h"
#include "server/state/slow_calls.h"

namespace kiln {
class Account;
}

namespace kiln::server {

class Engine;

// Who looks: an account, which sees its own; or nobody in particular, who sees all.
struct StateViewer {
  const Account* account = nullptr;  // null: all
  std::string tenant;                // who asks, if that is known
};

// Safe from any thread.
class ServerState {
 public:
  struct Options {
    absl::Duration slow_after = absl::Seconds(1);
    // How often who had what is noted; infinite: when SampleShares is called alone.
    absl::Duration period = absl::Seconds(1);
  };
  // `engine` outlives it.
  ServerState(const Options& options, Engine* engine);
  ~ServerState();
  ServerState(const ServerState&) = delete;
  ServerState& operator=(const ServerState&) = delete;

  // Takes some hundred microseconds, on a server with many sessions milliseconds; holds no lock of the data path for
  // longer than some ten of them.
  v1::StateResponse Collect(const v1::StateRequest& asked, const StateViewer& viewer) const;

  SlowCalls& slow_calls() { return slow_calls_; }
  const SlowCalls& slow_calls() const { return slow_calls_; }

  // What the thread does each second, as if it were `now`.
  void SampleShares(absl::Time now);

 private:
  void SampleUntilStopped();

  Engine* const engine_;
  const absl::Time begin_;
  const absl::Duration period_;
  const std::string build_;
  ShareHistory history_;
  SlowCalls slow_calls_;
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread sampler_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_STATE_STATE_H_
