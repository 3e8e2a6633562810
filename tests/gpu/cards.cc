#include "tests/gpu/cards.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "runtime/drivers/cuda/devices.h"
#include "runtime/drivers/hip/devices.h"

namespace kiln::testing {

Cards FindCards() {
  Cards cards;
  const auto take = [&cards](const char* kind, runtime::gpu::Found found) {
    for (auto& device : found.devices) cards.engines.push_back(std::make_unique<DeviceEngine>(std::move(device)));
    for (const std::string& why : found.absent) absl::StrAppend(&cards.absent, kind, ": ", why, "\n");
  };
  take("CUDA", runtime::cuda::FindDevices({}));
  take("HIP", runtime::hip::FindDevices({}));
  return cards;
}

}  // namespace kiln::testing
