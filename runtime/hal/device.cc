#include "runtime/hal/device.h"

namespace kiln::runtime::hal {

void DrainAll(absl::Span<const std::unique_ptr<Device>> devices) {
  for (const std::unique_ptr<Device>& device : devices) device->queue().Drain(absl::InfiniteFuture()).IgnoreError();
}

}  // namespace kiln::runtime::hal
