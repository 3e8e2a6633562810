// A device of another process, for code that must know that it is one.
//
// Its memory is not this process's: device_data() is an address over there, and
// host_data() null.
#ifndef KILN_RUNTIME_HAL_REMOTE_H_
#define KILN_RUNTIME_HAL_REMOTE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln::runtime::cluster {
class Transport;
}

namespace kiln::runtime::hal {

class Remote {
 public:
  virtual ~Remote() = default;

  // The process, and what carries bytes to and from it. The transport outlives the device.
  virtual uint32_t rank() const = 0;
  virtual cluster::Transport& transport() = 0;

  // Has the other process do `task`, in a form that it and the caller agree on, and
  // waits until that is done. From within work of the device's queue only.
  virtual absl::Status Do(absl::string_view task) = 0;
};

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_REMOTE_H_
