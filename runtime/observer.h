// How the outside (metrics, traces) watches programs run.
#ifndef KILN_RUNTIME_OBSERVER_H_
#define KILN_RUNTIME_OBSERVER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln {
class Account;
}  // namespace kiln

namespace kiln::runtime {

// One run of a program, after it ended. The views live for the call alone.
struct RunRecord {
  absl::string_view device;  // "CPU:0"
  double queue_seconds = 0;  // from Executor::Run until the first step began
  // From the first step until the last one ended; a GPU's own, without what the host did. Of a
  // sequence with programs for several devices, what ran on this device alone: each of the others
  // is a run of its own.
  double device_seconds = 0;
  uint32_t launches = 0;  // steps that ran
  absl::StatusCode outcome = absl::StatusCode::kOk;
  const Account* account = nullptr;  // who pays for the run; null: no tenant does
  uint64_t trace = 0;                // as its LaunchControl says
};

// One kernel launch, after it ended.
struct LaunchRecord {
  absl::string_view device;
  absl::string_view kernel;  // its name for people, or its symbol
  double seconds = 0;
  // As of its run.
  const Account* account = nullptr;
  uint64_t trace = 0;
};

// Called from whichever thread ran the work, also from several at once. An
// implementation must return quickly, must not throw, and must not call back
// into the runtime.
class RuntimeObserver {
 public:
  virtual ~RuntimeObserver() = default;
  virtual void OnRun(const RunRecord& record) = 0;
  // Asked once per run, with its LaunchControl's `trace`: whether OnLaunch is wanted, which costs
  // two readings of the clock a launch.
  virtual bool WantsLaunches(uint64_t trace) const { return false; }
  virtual void OnLaunch(const LaunchRecord& record) {}
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_OBSERVER_H_
