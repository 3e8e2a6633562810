// A device that computes nothing: the template for a new driver, and a stand-in
// where a test wants to see what the runtime asks of one.
#ifndef KILN_RUNTIME_DRIVERS_NULL_DEVICE_H_
#define KILN_RUNTIME_DRIVERS_NULL_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "runtime/hal/device.h"

namespace kiln::runtime::null {

struct DeviceOptions {
  std::string name = "NULL:0";
  uint64_t memory_limit_bytes = uint64_t{1} << 30;
  absl::Duration longest_run = absl::InfiniteDuration();
  // What LoadModule does before all else; it ends with its error. Null: nothing.
  std::function<absl::Status()> on_load;
};

// One launch, as it was asked for.
struct Launch {
  std::string symbol;
  std::vector<void*> buffers;
  absl::Time deadline;
};

// A device whose launches can be read back.
class Device : public hal::Device {
 public:
  // All launches since the last call. Safe from any thread.
  virtual std::vector<Launch> TakeLaunches() = 0;
};

absl::StatusOr<std::unique_ptr<Device>> CreateDevice(DeviceOptions options);

}  // namespace kiln::runtime::null

#endif  // KILN_RUNTIME_DRIVERS_NULL_DEVICE_H_
