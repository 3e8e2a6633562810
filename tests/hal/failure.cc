// Errors: most end one call alone; others lose the device (runtime/hal/device.h, health).
#include <atomic>

#include "absl/time/clock.h"
#include "tests/hal/kernel_test.h"

namespace kiln::testing {
namespace {

class Failure : public KernelTest {
 protected:
  using KernelTest::KernelTest;

  // Checks that the device is healthy, allocates and transfers.
  void ExpectWorks(size_t number = 0) {
    EXPECT_EQ(device(number).health(), absl::OkStatus());
    const BufferSlice slice = New(100, MemoryUse::kClient, number);
    EXPECT_EQ(Write(device(number), Pattern(99), {slice.buffer, 1, 99}), absl::OkStatus());
    EXPECT_TRUE(BytesOf(slice, number) == std::string(1, '\0') + Pattern(99));
  }
};

TEST_P(Failure, ARefusedTransferEndsAlone) {
  const BufferSlice slice = NewWith("abcd");
  std::string got(4, '?');
  Gate gate(device());
  absl::Notification done;
  auto& queue = device().queue();
  // The refused transfer is between two that are queued.
  queue.Fill(slice, "x", [](const absl::Status& status) { EXPECT_EQ(status, absl::OkStatus()); });
  EXPECT_EQ(CodeOf(Fill(device(), {slice.buffer, 3, 2}, "y")), v1::OUT_OF_BOUNDS);
  queue.Read(slice, got.data(), [&](const absl::Status& status) {
    EXPECT_EQ(status, absl::OkStatus());
    done.Notify();
  });
  gate.Go();
  done.WaitForNotification();
  EXPECT_EQ(got, "xxxx");
}

TEST_P(Failure, ARefusedAllocationEndsAlone) {
  const BufferSlice held = NewWith("abcd");
  const uint64_t limit = device().stats().memory.limit_bytes;
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(CodeOf(device().allocator().Allocate(limit + 1, MemoryUse::kClient).status()), v1::OUT_OF_MEMORY);
  EXPECT_EQ(BytesOf(held), "abcd");
  ExpectWorks();
}

TEST_P(Failure, ARefusedModuleEndsAlone) {
  if (const char* why = Lacks(Feature::kCode)) GTEST_SKIP() << why;
  const v1::Executable sum = Sum();
  const auto before = Load(sum);
  v1::Executable bad = sum;
  bad.set_object(std::string(1000, 'x'));
  EXPECT_FALSE(device().LoadModule(bad).ok());
  const auto after = Load(sum);
  const BufferSlice a = NewFloats(Row(1, 1)), result = NewFloats(Row(0, 0));
  for (const auto* module : {&before, &after}) {
    ASSERT_EQ(Fill(device(), result, ""), absl::OkStatus());
    EXPECT_EQ(Launch(**module, Operands(sum, result, a, a)), absl::OkStatus());
    EXPECT_TRUE(FloatsOf(result) == Row(2, 2));
  }
  ExpectWorks();
}

TEST_P(Failure, ACancelledLaunchEndsAlone) {
  const v1::Executable sum = Sum();
  const auto module = Load(sum);
  const BufferSlice a = NewFloats(Row(1, 1)), result = NewFloats(Row(0, 0));
  const std::vector<void*> operands = Operands(sum, result, a, a);
  std::atomic<bool> cancelled = true;
  EXPECT_EQ(Launch(*module, operands, 200, {&cancelled}).code(), absl::StatusCode::kCancelled);
  EXPECT_LT(launched_, 200u);
  cancelled = false;
  EXPECT_EQ(Launch(*module, operands, 200, {&cancelled}), absl::OkStatus());
  EXPECT_EQ(launched_, 200u);
  ExpectComputed(result, Row(2, 2));
  ExpectWorks();
}

TEST_P(Failure, ALaunchPastItsDeadlineEndsAlone) {
  const v1::Executable sum = Sum();
  const auto module = Load(sum);
  const BufferSlice a = NewFloats(Row(1, 1)), result = NewFloats(Row(0, 0));
  const std::vector<void*> operands = Operands(sum, result, a, a);
  const absl::Status late = Launch(*module, operands, 200, {nullptr, absl::Now() - absl::Seconds(1)});
  EXPECT_EQ(CodeOf(late), v1::DEADLINE_PASSED) << late;
  EXPECT_LT(launched_, 200u);
  EXPECT_EQ(Launch(*module, operands, 200, {nullptr, absl::Now() + absl::Hours(1)}), absl::OkStatus());
  EXPECT_EQ(launched_, 200u);
  ExpectWorks();
}

class Loss : public Failure {
 protected:
  Loss() : Failure(Losing::kYes) {}

  void ExpectLost(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    ASSERT_EQ(CodeOf(status), v1::PARTICIPANT_MISSING) << status;
    EXPECT_EQ(DetailOf(status)->field(), device().name()) << status;
  }
};

TEST_P(Loss, EndsEveryCallOnTheDevice) {
  if (const char* why = Lacks(Feature::kLoss)) GTEST_SKIP() << why;
  const v1::Executable sum = Sum();
  const auto module = Load(sum);
  const BufferSlice slice = NewFloats(Row(1, 1)), large = New(1 << 20);
  machine_->LoseFirst();
  ExpectLost(Read(device(), slice).status());
  ExpectLost(device().health());
  ExpectLost(Write(device(), "a", {slice.buffer, 0, 1}));
  // Large enough for other ways of transfer.
  ExpectLost(Read(device(), large).status());
  ExpectLost(Write(device(), Pattern(large.bytes), large));
  ExpectLost(Fill(device(), slice, "abc"));
  ExpectLost(Copy(device(), {slice.buffer, 0, 8}, {slice.buffer, 8, 8}));
  ExpectLost(Launch(*module, Operands(sum, slice, slice, slice)));
  ExpectLost(device().allocator().Allocate(1 << 20, MemoryUse::kClient).status());
  ExpectLost(device().LoadModule(sum).status());
  ExpectLost(device().Store("abc", 3, slice.device_data()));
  std::string got(3, '?');
  ExpectLost(device().Load(slice.device_data(), 3, got.data()));
  ExpectLost(device().health());
}

TEST_P(Loss, LeavesTheOtherDeviceAlone) {
  if (const char* why = Lacks(Feature::kLoss)) GTEST_SKIP() << why;
  const v1::Executable sum = Sum();
  const auto module = Load(sum, 1);
  const BufferSlice here = NewWith("abc"), there = NewFloats(Row(1, 1), 1), result = NewFloats(Row(0, 0), 1);
  machine_->LoseFirst();
  ExpectLost(Read(device(), here).status());
  EXPECT_TRUE(FloatsOf(there, 1) == Row(1, 1));
  EXPECT_EQ(Launch(*module, Operands(sum, result, there, there), 1, {}, 1), absl::OkStatus());
  EXPECT_TRUE(FloatsOf(result, 1) == Row(2, 2));
  ExpectWorks(1);
}

TEST_P(Loss, EndsWhatIsQueued) {
  if (const char* why = Lacks(Feature::kLoss)) GTEST_SKIP() << why;
  const BufferSlice slice = NewWith("abc");
  std::vector<absl::Status> outcomes(20);
  std::string got(3, '?');
  {
    Gate gate(device());
    for (absl::Status& outcome : outcomes)
      device().queue().Read(slice, got.data(), [&](absl::Status status) { outcome = std::move(status); });
    machine_->LoseFirst();
  }
  Settle();
  for (const absl::Status& outcome : outcomes) ExpectLost(outcome);
  EXPECT_EQ(got, "???");
}

INSTANTIATE_TEST_SUITE_P(Devices, Failure, ::testing::ValuesIn(RowPointers()), RowName);
INSTANTIATE_TEST_SUITE_P(Devices, Loss, ::testing::ValuesIn(RowPointers()), RowName);

}  // namespace
}  // namespace kiln::testing
