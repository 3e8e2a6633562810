// A test on a machine with GPUs of either vendor that are not there.
#ifndef KILN_TESTS_DRIVERS_GPU_FIXTURE_H_
#define KILN_TESTS_DRIVERS_GPU_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "tests/drivers/gpu_machine.h"
#include "tests/support/transfers.h"

namespace kiln::testing {

using runtime::hal::BufferSlice;
using runtime::hal::Device;
using runtime::hal::MemoryUse;

inline constexpr char kNothingLive[] =
    "memory 0, pinned 0, streams 0, events 0, graphs 0, modules 0, contexts 0, communicators 0";

class GpuDeviceTest : public ::testing::TestWithParam<std::unique_ptr<GpuMachine> (*)()> {
 protected:
  ~GpuDeviceTest() override {
    devices_.clear();
    EXPECT_EQ(machine_->fake()("live"), kNothingLive);
  }

  // With all cards that the fake has.
  void Open() {
    runtime::gpu::Found found = machine_->Find();
    EXPECT_THAT(found.absent, ::testing::IsEmpty());
    devices_ = std::move(found.devices);
    ASSERT_FALSE(devices_.empty());
  }
  Device& device(int number = 0) { return *devices_.at(static_cast<size_t>(number)); }
  BufferSlice New(uint64_t bytes, MemoryUse use = MemoryUse::kProgram, int number = 0) {
    auto buffer = device(number).allocator().Allocate(bytes, use);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? BufferSlice::Whole(*buffer) : BufferSlice();
  }
  absl::StatusOr<BufferSlice> Run(Device& device, const BufferSlice& input) {
    auto program = runtime::Load(machine_->Program(), device);
    if (!program.ok()) return program.status();
    absl::StatusOr<BufferSlice> result = absl::UnknownError("not run");
    absl::Notification done;
    runtime::Executor().Run(*program, {&input, 1}, {}, [&](absl::StatusOr<runtime::RunResult> run) {
      if (run.ok()) {
        result = run->results[0];
      } else {
        result = run.status();
      }
      done.Notify();
    });
    done.WaitForNotification();
    // What the run holds goes after its callback.
    EXPECT_TRUE(device.queue().Drain(absl::InfiniteFuture()).ok());
    return result;
  }

  std::unique_ptr<GpuMachine> machine_ = GetParam()();
  Fake& fake_ = machine_->fake();
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_DRIVERS_GPU_FIXTURE_H_
