#include "runtime/hal/device.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::runtime::hal {
namespace {

class OneByOne final : public LaunchList {
 public:
  explicit OneByOne(absl::Span<const Launch> launches) : launches_(launches) {}

  absl::Status Run(void* const* operands, const LaunchControl& control, uint32_t& launched) override {
    for (size_t i = 0; i < launches_.size(); ++i) {
      const Launch& launch = launches_[i];
      if (i != 0) {
        control.GiveWay();
        KILN_RETURN_IF_ERROR(control.Check());
      }
      KILN_RETURN_IF_ERROR(launch.module->Launch(launch.kernel, operands + launch.first_operand, control));
      ++launched;
    }
    return absl::OkStatus();
  }

 private:
  const absl::Span<const Launch> launches_;
};

}  // namespace

std::unique_ptr<LaunchList> Device::MakeLaunchList(absl::Span<const Launch> launches) {
  return std::make_unique<OneByOne>(launches);
}

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
