// How long a GPU has been at what it was launched for, by its own clock: from when it came to the
// first launch until it was done with the last. What the host does meanwhile is not in it.
#ifndef KILN_RUNTIME_DRIVERS_GPU_LAUNCH_CLOCK_H_
#define KILN_RUNTIME_DRIVERS_GPU_LAUNCH_CLOCK_H_

#include <optional>

#include "absl/status/status.h"
#include "runtime/drivers/gpu/card.h"
#include "runtime/drivers/gpu/owned.h"

namespace kiln::runtime::gpu {

// For work of the device's queue alone.
class LaunchClock {
 public:
  // Both outlive it.
  LaunchClock(Card* card, Stream stream) : card_(card), stream_(stream) {}

  // Before the stream is asked for a launch.
  absl::Status Begin();
  // Waits for the stream.
  absl::Status Finish();
  // What has been measured since this was last called; nothing if nothing was launched, or if the
  // library would not measure it.
  std::optional<double> Take();

 private:
  absl::Status MakeEvents();

  Card* const card_;
  const Stream stream_;
  OwnedEvent first_, last_;
  bool running_ = false;
  std::optional<double> seconds_;
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_LAUNCH_CLOCK_H_
