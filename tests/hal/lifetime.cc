// Lifetimes of buffers in flight, devices with work, and modules (runtime/hal/device.h).
#include <atomic>
#include <thread>

#include "tests/hal/kernel_test.h"

namespace kiln::testing {
namespace {

class Lifetime : public KernelTest {};

TEST_P(Lifetime, BuffersLiveWhileTheyAreInFlight) {
  const std::string text = Pattern(100'000);
  BufferSlice from = New(text.size()), to = New(text.size());
  std::string got(text.size(), '?');
  {
    Gate gate(device());
    auto& queue = device().queue();
    const auto ended = [](const absl::Status& status) { EXPECT_EQ(status, absl::OkStatus()); };
    queue.Write(text.data(), from, ended);
    queue.Copy(from, to, ended);
    queue.Read(to, got.data(), ended);
    from = to = {};
    EXPECT_EQ(device().stats().memory.buffers, 2u);
  }
  Settle();
  EXPECT_TRUE(got == text);
  EXPECT_EQ(device().stats().memory.buffers, 0u);
}

// Freed memory may be allocated again at once: clearing it must not lose what the next owner writes.
TEST_P(Lifetime, MemoryOfTheNextOwnerIsItsOwn) {
  for (int round = 0; round < 50; ++round) {
    NewWith(std::string(5000, 'x'));  // freed at once
    const BufferSlice next = New(5000, round % 2 == 0 ? MemoryUse::kClient : MemoryUse::kProgram);
    const std::string text = Pattern(2000, round);
    ASSERT_EQ(Write(device(), text, {next.buffer, 1000, 2000}), absl::OkStatus());
    const std::string got = BytesOf(next);
    EXPECT_TRUE(got.substr(1000, 2000) == text) << round;
    if (round % 2 == 0) {
      EXPECT_TRUE(got.substr(0, 1000) == std::string(1000, '\0')) << round;
    }
  }
}

TEST_P(Lifetime, AnyThreadMayFreeBuffers) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const BufferSlice slice = NewWith(Pattern(1000, t));
        EXPECT_TRUE(BytesOf(slice) == Pattern(1000, t));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Settle();
  EXPECT_EQ(device().stats().memory.in_use_bytes, 0u);
  EXPECT_EQ(device().stats().memory.allocations, 200u);
}

TEST_P(Lifetime, ADeviceWaitsForItsWorkBeforeItIsDestroyed) {
  std::string got(3, '?');
  std::atomic<int> ended = 0;
  absl::Notification go;
  {
    const BufferSlice slice = New(3, MemoryUse::kClient);
    auto& queue = device().queue();
    queue.Submit([&] { go.WaitForNotification(); }, kLongNs);
    const auto count = [&](const absl::Status& status) {
      EXPECT_EQ(status, absl::OkStatus());
      ++ended;
    };
    for (int i = 0; i < 50; ++i) queue.Fill(slice, std::string(1, static_cast<char>('0' + i)), count);
    queue.Read(slice, got.data(), count);
  }
  std::thread opener([&] { go.Notify(); });
  machine_->devices.erase(machine_->devices.begin());
  EXPECT_EQ(ended, 51);
  EXPECT_EQ(got, "aaa");
  opener.join();
}

TEST_P(Lifetime, ModulesAreUnloadedAfterTheirLastLaunchAndBeforeTheirBuffers) {
  const v1::Executable sum = Sum();
  const BufferSlice a = NewFloats(Row(1, 1)), result = NewFloats(Row(0, 0));
  for (int round = 0; round < 5; ++round) {
    const auto module = Load(sum);
    ASSERT_EQ(Fill(device(), result, ""), absl::OkStatus());
    EXPECT_EQ(Launch(*module, Operands(sum, result, a, a), 3), absl::OkStatus());
  }
  EXPECT_EQ(device().stats().modules, 0u);
  EXPECT_EQ(device().stats().launches, 15u);
  ExpectComputed(result, Row(2, 2));
}

TEST_P(Lifetime, DevicesOpenAgain) {
  const std::string name(device().name());
  for (int round = 0; round < 2; ++round) {
    machine_ = nullptr;  // a fake library serves one machine at a time
    machine_ = row().open(Losing::kNo);
    ASSERT_FALSE(machine_->devices.empty());
    EXPECT_EQ(device().name(), name);
    EXPECT_EQ(device().stats().memory.in_use_bytes, 0u);
    EXPECT_TRUE(BytesOf(New(5000, MemoryUse::kClient)) == std::string(5000, '\0'));
    EXPECT_TRUE(BytesOf(NewWith(Pattern(5000))) == Pattern(5000));
  }
}

TEST_P(Lifetime, WorkOfTwoDevicesIsDrainedTogether) {
  if (const char* why = Lacks(Feature::kPair)) GTEST_SKIP() << why;
  std::atomic<int> ran = 0;
  for (int i = 0; i < 20; ++i) {
    for (size_t number : {0u, 1u}) device(number).queue().Submit([&] { ++ran; }, kLongNs);
  }
  runtime::hal::DrainAll(machine_->devices);
  EXPECT_EQ(ran, 40);
}

INSTANTIATE_TEST_SUITE_P(Devices, Lifetime, ::testing::ValuesIn(RowPointers()), RowName);

}  // namespace
}  // namespace kiln::testing
