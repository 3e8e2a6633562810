// Rows of the drivers that need no hardware, and of the GPU drivers on fakes of the vendors' libraries.
#include "tests/hal/devices.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/null/device.h"
#include "runtime/testing/loopback_job.h"
#include "tests/drivers/compiled_for.h"
#include "tests/drivers/gpu_fixture.h"
#include "tests/drivers/gpu_machine.h"

namespace kiln::testing {
namespace {

constexpr uint64_t kMemoryBytes = 64 << 20;  // of a device

class NullMachine final : public Machine {
 public:
  NullMachine() {
    for (const char* name : {"NULL:0", "NULL:1"})
      devices.push_back(*runtime::null::CreateDevice({.name = name, .memory_limit_bytes = kMemoryBytes}));
  }
  ~NullMachine() override { Close(); }
};

class CpuMachine final : public Machine {
 public:
  CpuMachine() { devices = *runtime::cpu::CreateDevices(2, {.threads = 2, .memory_limit_bytes = 2 * kMemoryBytes}); }
  ~CpuMachine() override { Close(); }
};

// The CPUs of ranks 1 and 2, as devices of rank 0.
class RemoteMachine final : public Machine {
 public:
  explicit RemoteMachine(Losing losing)
      : job_(
            3, 1, [](auto&, absl::string_view, const auto&) { return absl::OkStatus(); },
            losing == Losing::kYes ? absl::Seconds(2) : absl::Seconds(60)) {
    devices = job_.TakeDevices();
  }
  ~RemoteMachine() override { Close(); }
  void LoseFirst() override { job_.Silence(1); }

 private:
  runtime::testing::LoopbackJob job_;
};

class FakeGpus final : public Machine {
 public:
  explicit FakeGpus(std::unique_ptr<GpuMachine> machine) : machine_(std::move(machine)) {
    machine_->fake()("set devices 2");
    runtime::gpu::Found found = machine_->Find();
    KILN_CHECK(found.devices.size() == 2 && found.absent.empty());
    devices = std::move(found.devices);
  }
  ~FakeGpus() override {
    Close();
    // The fake still counts what the lost card held.
    if (lost_) machine_->fake()("forget 0");
    EXPECT_EQ(machine_->fake()("live"), kNothingLive) << "of the vendor's library";
  }
  absl::StatusOr<v1::Executable> Compile(const v1::Graph& graph, const v1::Target& target) override {
    return CompiledFor(*machine_, target, graph, {}, absl::StrCat("hal", compiled_++));
  }
  void LoseFirst() override {
    lost_ = true;
    machine_->fake()("lose 0 719");
  }

 private:
  std::unique_ptr<GpuMachine> machine_;
  bool lost_ = false;
  int compiled_ = 0;
};

template <typename Made>
std::unique_ptr<Machine> Open(Losing) {
  return std::make_unique<Made>();
}

}  // namespace

const std::vector<DeviceRow>& DeviceRows() {
  static const auto& rows = *new std::vector<DeviceRow>{
      {"null",
       v1::Target::NULL_TARGET,
       &Open<NullMachine>,
       {{Feature::kCode, "its modules hold no code and compute nothing"},
        {Feature::kCache, "freed memory goes back to the system"},
        {Feature::kPeers, "the host copies between devices whose memory it sees"},
        {Feature::kLoss, "a test cannot take host memory away"}}},
      {"cpu",
       v1::Target::CPU,
       &Open<CpuMachine>,
       {{Feature::kPeers, "the host copies between devices whose memory it sees"},
        {Feature::kLoss, "a test cannot take host memory away"}}},
      {"remote",
       v1::Target::CPU,
       [](Losing losing) -> std::unique_ptr<Machine> { return std::make_unique<RemoteMachine>(losing); },
       {{Feature::kHostMemory, "the memory is in another process"},
        {Feature::kPeers, "ranks exchange data by the transport"}}},
      {"cuda",
       v1::Target::NVPTX,
       [](Losing) -> std::unique_ptr<Machine> { return std::make_unique<FakeGpus>(MakeCudaMachine()); },
       {{Feature::kHostMemory, "the memory is on the card"}}},
      {"hip",
       v1::Target::AMDGPU,
       [](Losing) -> std::unique_ptr<Machine> { return std::make_unique<FakeGpus>(MakeHipMachine()); },
       {{Feature::kHostMemory, "the memory is on the card"}}},
  };
  return rows;
}

}  // namespace kiln::testing
