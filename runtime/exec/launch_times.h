// How long a run's launches took: by the device's own clock where it has one, else by the host's.
#ifndef KILN_RUNTIME_EXEC_LAUNCH_TIMES_H_
#define KILN_RUNTIME_EXEC_LAUNCH_TIMES_H_

#include <chrono>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "runtime/hal/device.h"
#include "runtime/hal/module.h"

namespace kiln::runtime {

// The seconds since it was made, without what others have had the device for (hal/interruption.h).
class OwnTime {
 public:
  explicit OwnTime(const hal::LaunchControl& control) : control_(control), away_(control.away()) {}
  double seconds() const {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - started_;
    return passed.count() - absl::ToDoubleSeconds(control_.away() - away_);
  }

 private:
  const hal::LaunchControl& control_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const absl::Duration away_;
};

// Of one run after another; both are asked after FinishLaunches, with the seconds that passed here.
class LaunchTimes {
 public:
  // Of what was launched since the last time.
  double One(hal::Device& device, double passed) {
    const std::optional<double> own = device.TakeLaunchSeconds();
    if (own.has_value()) seen_ = seen_.value_or(0) + *own;
    return own.value_or(passed);
  }

  // Of all of a run.
  double All(hal::Device& device, double passed) {
    One(device, 0);
    return std::exchange(seen_, std::nullopt).value_or(passed);
  }

 private:
  std::optional<double> seen_;
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_LAUNCH_TIMES_H_
