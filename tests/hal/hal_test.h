// The base of the suite's tests: it opens a row's devices, and has short names for common calls.
#ifndef KILN_TESTS_HAL_HAL_TEST_H_
#define KILN_TESTS_HAL_HAL_TEST_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/hal/device.h"
#include "tests/hal/devices.h"
#include "tests/support/transfers.h"

namespace kiln::testing {

using runtime::hal::BufferSlice;
using runtime::hal::Device;
using runtime::hal::MemoryUse;

// An estimate so long that no queue runs the work on the submitting thread.
inline constexpr uint64_t kLongNs = 1'000'000'000;

class HalTest : public ::testing::TestWithParam<const DeviceRow*> {
 protected:
  explicit HalTest(Losing losing = Losing::kNo) : machine_(GetParam()->open(losing)) {}
  ~HalTest() override { runtime::hal::DrainAll(machine_->devices); }

  void SetUp() override {
    if (machine_->devices.empty()) GTEST_SKIP() << "there is no such device here: " << machine_->absent;
  }

  const DeviceRow& row() const { return *GetParam(); }
  // Why there is no such thing here; null if there is.
  const char* Lacks(Feature feature) const {
    if (const auto found = row().lacks.find(feature); found != row().lacks.end()) return found->second;
    const auto found = machine_->lacks.find(feature);
    return found == machine_->lacks.end() ? nullptr : found->second;
  }
  Device& device(size_t number = 0) { return *machine_->devices.at(number); }

  BufferSlice New(uint64_t bytes, MemoryUse use = MemoryUse::kProgram, size_t number = 0) {
    auto buffer = device(number).allocator().Allocate(bytes, use);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    return buffer.ok() ? BufferSlice::Whole(*buffer) : BufferSlice();
  }
  BufferSlice NewWith(const std::string& bytes, size_t number = 0) {
    BufferSlice slice = New(bytes.size(), MemoryUse::kProgram, number);
    EXPECT_EQ(Write(device(number), bytes, slice), absl::OkStatus());
    return slice;
  }
  std::string BytesOf(const BufferSlice& slice, size_t number = 0) {
    auto bytes = Read(device(number), slice);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return bytes.ok() ? *std::move(bytes) : "";
  }

  // Runs `work` as an entry of the device's queue, and waits for it.
  void InQueue(const std::function<void()>& work, size_t number = 0) {
    absl::Notification done;
    device(number).queue().Submit(
        [&] {
          work();
          done.Notify();
        },
        0);
    done.WaitForNotification();
  }
  // Waits until ended work has released all that it held. Twice, since the queue may also clear
  // freed memory before it can be allocated again.
  void Settle(size_t number = 0) {
    for (int i = 0; i < 2; ++i) EXPECT_EQ(device(number).queue().Drain(absl::InfiniteFuture()), absl::OkStatus());
  }

  static v1::ErrorCode CodeOf(const absl::Status& status) {
    const auto detail = DetailOf(status);
    return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
  }

  std::unique_ptr<Machine> machine_;
};

// Blocks a queue until Go.
class Gate {
 public:
  explicit Gate(Device& device) {
    device.queue().Submit(
        [state = state_] {
          state->begun.Notify();
          state->go.WaitForNotification();
        },
        kLongNs);
    state_->begun.WaitForNotification();
  }
  ~Gate() { Go(); }
  void Go() {
    if (!state_->go.HasBeenNotified()) state_->go.Notify();
  }

 private:
  struct State {
    absl::Notification begun, go;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();  // the work may end after the gate
};

// The name of a test's parameter, such as "cuda".
inline std::string RowName(const ::testing::TestParamInfo<const DeviceRow*>& info) { return info.param->name; }

}  // namespace kiln::testing

#endif  // KILN_TESTS_HAL_HAL_TEST_H_
