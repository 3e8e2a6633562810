#include "runtime/hal/device.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace kiln::runtime::hal {

absl::Status Device::Load(const void* address, uint64_t bytes, void* to) {
  if (bytes != 0) std::memcpy(to, address, bytes);
  return absl::OkStatus();
}

absl::Status Device::Store(const void* from, uint64_t bytes, void* address) {
  if (bytes != 0) std::memcpy(address, from, bytes);
  return absl::OkStatus();
}

absl::Status Device::CopyFrom(Device& other, absl::Span<const Move> moves) {
  return absl::UnimplementedError(absl::StrCat(name(), " does not copy from ", other.name()));
}

void DrainAll(absl::Span<const std::unique_ptr<Device>> devices) {
  for (const std::unique_ptr<Device>& device : devices) device->queue().Drain(absl::InfiniteFuture()).IgnoreError();
}

}  // namespace kiln::runtime::hal
