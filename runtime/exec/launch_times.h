// How long a run's launches took: by the device's own clock where it has one, else by the host's.
#ifndef KILN_RUNTIME_EXEC_LAUNCH_TIMES_H_
#define KILN_RUNTIME_EXEC_LAUNCH_TIMES_H_

#include <optional>
#include <utility>

#include "runtime/hal/device.h"

namespace kiln::runtime {

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
