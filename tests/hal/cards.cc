// Rows of this machine's GPUs, for tests/gpu: of each vendor two, one or none.
#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "runtime/drivers/cuda/devices.h"
#include "runtime/drivers/hip/devices.h"
#include "tests/hal/devices.h"

namespace kiln::testing {
namespace {

class Cards final : public Machine {
 public:
  explicit Cards(runtime::gpu::Found found) : devices_found_(std::move(found.devices)) {
    for (const std::string& why : found.absent) absl::StrAppend(&absent, why, "\n");
    const size_t count = std::min<size_t>(devices_found_.size(), 2);
    for (size_t i = 0; i < count; ++i) devices.push_back(std::move(devices_found_[i]));
    if (count < 2) {
      lacks[Feature::kPair] = lacks[Feature::kPeers] = "there is one card";
    } else if (!devices[1]->CopiesFrom(*devices[0])) {
      lacks[Feature::kPeers] = "the hardware does not connect the cards";
    }
  }
  ~Cards() override { Close(); }

 private:
  // The other cards: the first two may have them as peers.
  std::vector<std::unique_ptr<runtime::hal::Device>> devices_found_;
};

template <runtime::gpu::Found (*kFind)()>
std::unique_ptr<Machine> Open(Losing) {
  return std::make_unique<Cards>(kFind());
}
// Little memory, since deploy/gpu.sh runs several tests on a card at once, and a test takes half of it.
constexpr runtime::gpu::DeviceOptions kLittle = {.memory_percent = 2};
runtime::gpu::Found FindCuda() { return runtime::cuda::FindDevices({.device = kLittle}); }
runtime::gpu::Found FindHip() { return runtime::hip::FindDevices({.device = kLittle}); }

}  // namespace

const std::vector<DeviceRow>& DeviceRows() {
  static const auto& rows = *new std::vector<DeviceRow>([] {
    std::vector<DeviceRow> all = {
        {"cuda_card",
         v1::Target::NVPTX,
         &Open<&FindCuda>,
         {{Feature::kHostMemory, "the memory is on the card"},
          {Feature::kLoss, "a test cannot take a real card away"}}},
        {"hip_card",
         v1::Target::AMDGPU,
         &Open<&FindHip>,
         {{Feature::kHostMemory, "the memory is on the card"},
          {Feature::kLoss, "a test cannot take a real card away"}}},
    };
    // Without AMD's kernel driver its cards have no row, not even a skipped one.
    if (access("/dev/kfd", F_OK) != 0) all.pop_back();
    return all;
  }());
  return rows;
}

}  // namespace kiln::testing
