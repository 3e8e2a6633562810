// Launches that go together, again and again, whichever modules they are of.
#ifndef KILN_RUNTIME_HAL_LAUNCH_LIST_H_
#define KILN_RUNTIME_HAL_LAUNCH_LIST_H_

#include <cstdint>

#include "absl/status/status.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::hal {

// Of kernel `kernel` of that module, over the operands from `first_operand` on.
struct Launch {
  Module* module = nullptr;
  uint32_t kernel = 0;
  uint32_t first_operand = 0;
};

// Made by a device (Device::MakeLaunchList), of modules of its own, which outlive it as the device does.
class LaunchList {
 public:
  virtual ~LaunchList() = default;

  // Launches one after the other until one fails, and looks at `control` in between; adds to
  // `launched` those that ended well. As Module::LaunchAll, from within work of the device's
  // queue only.
  virtual absl::Status Run(void* const* operands, const LaunchControl& control, uint32_t& launched) = 0;
};

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_LAUNCH_LIST_H_
