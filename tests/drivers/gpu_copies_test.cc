// Copies between GPUs, and between them and the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/exec/move_boxes.h"
#include "runtime/testing/loopback_job.h"
#include "tests/drivers/gpu_together.h"

namespace kiln::testing {
namespace {

TEST_P(GpuTogetherTest, CopiesFromAnyToAny) {
  const uint64_t kBytes = (17 << 20) + 1;
  for (const auto& [from, to] : {std::pair<size_t, size_t>{0, 1}, {1, 3}, {3, 0}}) {
    const BufferSlice source = New(from, kBytes), target = New(to, kBytes + 2);
    std::string text(kBytes, '\0');
    for (uint64_t i = 0; i < kBytes; ++i) text[i] = static_cast<char>((i * 13 + from) & 0xff);
    ASSERT_EQ(Write(*devices_[from], text, source), absl::OkStatus());
    EXPECT_EQ(CopyBetween(from, source, to, {target.buffer, 1, kBytes}), absl::OkStatus());
    EXPECT_TRUE(*Read(*devices_[to], target) == std::string(1, '\0') + text + std::string(1, '\0')) << from << to;
  }
  EXPECT_EQ(PeerCopies(), 1u);
}

TEST_P(GpuTogetherTest, PeersAreThoseThatTheHardwareConnects) {
  EXPECT_THAT(devices_[1]->peers(), ::testing::ElementsAre(devices_[0]->name(), devices_[2]->name()));
  EXPECT_TRUE(devices_[1]->CopiesFrom(*devices_[0]));
  EXPECT_TRUE(devices_[1]->CopiesFrom(*devices_[1]));
  EXPECT_FALSE(devices_[1]->CopiesFrom(*devices_[3]));
  EXPECT_FALSE(devices_[3]->CopiesFrom(*devices_[1]));
  // Somebody else may have let them, and one pair may not be let.
  fake_("reset");
  fake_("set devices 3");
  fake_("fail " + machine_->Entry("reach") + " 1 704");
  fake_("fail " + machine_->Entry("reach") + " 2 711");
  devices_.clear();
  Open();
  EXPECT_THAT(devices_[0]->peers(), ::testing::ElementsAre(devices_[1]->name()));
  EXPECT_THAT(devices_[1]->peers(), ::testing::ElementsAre(devices_[0]->name(), devices_[2]->name()));
  fake_("set no_peers 1");
  devices_.clear();
  Open();
  EXPECT_THAT(devices_[0]->peers(), ::testing::IsEmpty());
  const BufferSlice source = New(0, 100), target = New(1, 100);
  ASSERT_EQ(Write(*devices_[0], Pattern(100), source), absl::OkStatus());
  EXPECT_EQ(CopyBetween(0, source, 1, target), absl::OkStatus());
  EXPECT_EQ(*Read(*devices_[1], target), Pattern(100));
  EXPECT_EQ(PeerCopies(), 0u);
}

TEST_P(GpuTogetherTest, ACopyOfFreshMemoryComesAfterItsClearing) {
  const BufferSlice source = New(0, 100), target = New(1, 100);
  ASSERT_EQ(Write(*devices_[1], Pattern(100), target), absl::OkStatus());
  EXPECT_EQ(CopyBetween(0, source, 1, target), absl::OkStatus());
  EXPECT_EQ(*Read(*devices_[1], target), std::string(100, '\0'));
  const BufferSlice again = New(0, 100), fresh = New(2, 100);
  ASSERT_EQ(Write(*devices_[0], Pattern(100), again), absl::OkStatus());
  EXPECT_EQ(CopyBetween(0, again, 2, fresh), absl::OkStatus());
  EXPECT_EQ(*Read(*devices_[2], fresh), Pattern(100));
}

TEST_P(GpuTogetherTest, ADeviceCopiesManyPiecesInOneGo) {
  const BufferSlice source = New(0, 100), target = New(1, 100);
  ASSERT_EQ(Write(*devices_[0], Pattern(100), source), absl::OkStatus());
  const auto at = [](const BufferSlice& slice, uint64_t offset) {
    return static_cast<char*>(slice.device_data()) + offset;
  };
  const std::vector<runtime::hal::Move> moves = {
      {at(source, 0), at(target, 50), 20}, {at(source, 7), at(target, 0), 0}, {at(source, 90), at(target, 10), 10}};
  EXPECT_EQ(devices_[1]->CopyFrom(*devices_[0], moves), absl::OkStatus());
  std::string expected(100, '\0');
  expected.replace(50, 20, Pattern(100).substr(0, 20));
  expected.replace(10, 10, Pattern(100).substr(90, 10));
  EXPECT_EQ(*Read(*devices_[1], target), expected);
  const runtime::hal::Move inside = {at(target, 50), at(target, 80), 20};
  EXPECT_EQ(devices_[1]->CopyFrom(*devices_[1], {&inside, 1}), absl::OkStatus());
  expected.replace(80, 20, Pattern(100).substr(0, 20));
  EXPECT_EQ(*Read(*devices_[1], target), expected);
}

TEST_P(GpuTogetherTest, BoxesOfFewRunsGoDirectly) {
  const std::vector<BufferSlice> slices = {New(0, 4000), New(1, 4000)};
  const std::string text = Pattern(4000);
  ASSERT_EQ(Write(*devices_[0], text, slices[0]), absl::OkStatus());
  for (const uint64_t runs : {3, 200}) {
    const size_t copies = PeerCopies();
    runtime::ProgramTask task;
    runtime::BoxCopy box;
    box.to = 1;
    box.from_offset = 4;
    box.to_offset = 8;
    box.run_bytes = 8;
    box.repeats = {{runs, 16, 12}};
    task.copies = {box};
    ASSERT_EQ(Fill(*devices_[1], slices[1], ""), absl::OkStatus());
    ASSERT_EQ(runtime::MoveBoxes(task, slices), absl::OkStatus());
    std::string expected(4000, '\0');
    for (uint64_t i = 0; i < runs; ++i) expected.replace(8 + 12 * i, 8, text.substr(4 + 16 * i, 8));
    EXPECT_TRUE(*Read(*devices_[1], slices[1]) == expected) << runs;
    EXPECT_EQ(PeerCopies() - copies, runs == 3 ? 3u : 0u);
  }
}

TEST_P(GpuTogetherTest, ACopyFromALostDeviceSaysWhich) {
  const BufferSlice source = New(0, 8), target = New(1, 8);
  fake_("lose 0 719");
  const absl::Status status = CopyBetween(0, source, 1, target);
  EXPECT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING) << status;
  EXPECT_EQ(DetailOf(status)->field(), devices_[0]->name());
  EXPECT_EQ(devices_[1]->health(), absl::OkStatus());
  fake_("forget 0");
}

// Processes send what they see; a card's memory is not among that.
TEST_P(GpuTogetherTest, ADeviceOfAnotherProcessIsRefused) {
  runtime::testing::LoopbackJob job(
      2, 1,
      [](runtime::cluster::Transport&, absl::string_view, const runtime::cluster::Ranges&) { return absl::OkStatus(); },
      absl::Seconds(60));
  for (auto& device : job.TakeDevices()) devices_.push_back(std::move(device));
  {
    const BufferSlice here = New(0, 64), there = New(4, 64);
    EXPECT_EQ(DetailOf(CopyBetween(0, here, 4, there))->code(), v1::NOT_IMPLEMENTED);
    EXPECT_EQ(DetailOf(CopyBetween(4, there, 0, here))->field(), devices_[0]->name());
    collective::Request request;
    request.kind = collective::Kind::kAllReduce;
    request.dtype = v1::UINT8;
    request.count = 64;
    request.devices = {devices_[0].get(), devices_[4].get()};
    request.inputs = request.outputs = {here, there};
    EXPECT_EQ(DetailOf(Run(request).status())->code(), v1::NOT_IMPLEMENTED);
  }
  runtime::hal::DrainAll(devices_);
  devices_.pop_back();
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuTogetherTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuTogetherTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
