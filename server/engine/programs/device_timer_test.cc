// Kernels timed on a real device: what must not run does not, and what fails says why.
#include "server/engine/programs/device_timer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <memory>
#include <vector>

#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "runtime/drivers/cpu/device.h"

namespace kiln::server {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

// x[i] = x[i] * 2 in place, and a gather by it: y[i] = z[w[i]].
constexpr char kKernel[] = R"(
  0 CONST [] weakint 65536
  1 STACK [0]
  2 PARAM : float32 [1] slot=0
  3 RANGE [0] range=(0) type=LOOP
  4 INDEX [2, 3]
  5 CONST [] float32 2.0
  6 MUL [4, 5]
  7 STORE [4, 6]
  8 END [7, 3]
  9 SINK [8] kernel name="twice"
)";
constexpr char kGather[] = R"(
  0 CONST [] weakint 4096
  1 STACK [0]
  2 PARAM : float32 [1] slot=0
  3 PARAM : float32 [1] slot=1
  4 PARAM : int32 [1] slot=2
  5 RANGE [0] range=(0) type=LOOP
  6 INDEX [4, 5]
  7 INDEX [3, 6]
  8 INDEX [2, 5]
  9 STORE [8, 7]
  10 END [9, 5]
  11 SINK [10] kernel name="gather"
)";

class DeviceTimerTest : public testing::Test {
 protected:
  DeviceTimerTest() : pool_(2) {
    runtime::cpu::DeviceOptions options;
    options.threads = 2;
    options.memory_limit_bytes = 64 << 20;
    devices_.push_back(*runtime::cpu::CreateDevice(std::move(options)));
    device_ = devices_.front().get();
    turns_ = std::make_unique<Turns>(Turns::Options(), devices_);
  }

  v1::Executable Compiled(const char* text) {
    auto executable = compiler::Compile(*ParseGraph(text), device_->target(), {});
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *std::move(executable);
  }
  DeviceTimer Timer() {
    return DeviceTimer(*device_, {&pool_, 1, turns_.get(), &searching_, &stopping_}, absl::Seconds(60), control_);
  }

  CompilePool pool_;
  FairMutex searching_;
  std::vector<std::unique_ptr<runtime::hal::Device>> devices_;
  runtime::hal::Device* device_ = nullptr;
  std::unique_ptr<Turns> turns_;
  std::atomic<bool> cancelled_{false}, stopping_{false};
  runtime::hal::LaunchControl control_{&cancelled_};
};

TEST_F(DeviceTimerTest, TimesWhatRuns) {
  DeviceTimer timer = Timer();
  for (const char* kernel : {kKernel, kGather, kKernel}) {
    const compiler::Timing timing = timer.Time(Compiled(kernel), kNoLimit);
    EXPECT_EQ(timing.fault, "");
    EXPECT_GT(timing.micros, 0);
    EXPECT_LT(timing.micros, 1e6);
  }
  EXPECT_EQ(device_->stats().memory.buffers, 1u);  // of the last one alone
}

// A part of the iterations of a long kernel stands for all of them.
TEST_F(DeviceTimerTest, RunsAPartOfALongKernel) {
  v1::Executable executable = Compiled(kKernel);
  const uint64_t iterations = executable.kernels(0).iterations();
  ASSERT_GT(iterations, 64u);
  DeviceTimer timer = Timer();
  const double whole = timer.Time(executable, kNoLimit).micros;
  executable.mutable_kernels(0)->mutable_cost()->set_flops(iterations * 1'000'000'000);  // so it is said
  const uint64_t launches = device_->stats().launches;
  const compiler::Timing part = timer.Time(executable, kNoLimit);
  EXPECT_EQ(part.fault, "");
  EXPECT_GT(part.micros, 0);
  EXPECT_LT(part.micros, 1000 * std::max(1.0, whole));
  EXPECT_GT(device_->stats().launches, launches);
}

// Where the budget is used up, one run has to do: a slow candidate's others would take as long again each.
TEST_F(DeviceTimerTest, RunsOnceWhereNoTimeIsLeft) {
  DeviceTimer timer(*device_, {&pool_, 1, turns_.get(), &searching_, &stopping_}, absl::Nanoseconds(1), control_);
  const v1::Executable executable = Compiled(kKernel);
  const uint64_t launches = device_->stats().launches;
  const compiler::Timing timing = timer.Time(executable, kNoLimit);
  EXPECT_EQ(timing.fault, "");
  EXPECT_GT(timing.micros, 0);
  EXPECT_LT(timing.micros, 1e6);
  EXPECT_EQ(device_->stats().launches, launches + 1);
}

TEST_F(DeviceTimerTest, WhatTakesTooLongIsNotRun) {
  v1::Executable executable = Compiled(kKernel);
  executable.mutable_kernels(0)->mutable_cost()->set_flops(uint64_t{1} << 60);
  DeviceTimer timer = Timer();
  const uint64_t launches = device_->stats().launches;
  EXPECT_NE(timer.Time(executable, kNoLimit).fault.find("too long to be timed"), std::string::npos);
  EXPECT_EQ(device_->stats().launches, launches);
}

// A card's kernel has one iteration, and as many items as its launch says.
TEST_F(DeviceTimerTest, OfACardsKernelItemsAreBounded) {
  v1::Executable executable = Compiled(kKernel);
  v1::Kernel& kernel = *executable.mutable_kernels(0);
  for (const uint32_t groups : {1000, 1, 1}) kernel.mutable_launch()->add_groups(groups);
  for (const uint32_t items : {100, 1, 1}) kernel.mutable_launch()->add_items(items);
  DeviceTimer timer = Timer();
  kernel.mutable_cost()->set_flops(5'000'000'000'000);  // 5e7 an item
  EXPECT_EQ(timer.Time(executable, kNoLimit).fault.find("could not be stopped"), std::string::npos);
  kernel.mutable_cost()->set_flops(20'000'000'000'000);  // too many in all
  EXPECT_NE(timer.Time(executable, kNoLimit).fault.find("could not be stopped"), std::string::npos);
  kernel.mutable_launch()->set_groups(0, 1);
  kernel.mutable_cost()->set_flops(50'000'000'000);  // 5e8 an item
  EXPECT_NE(timer.Time(executable, kNoLimit).fault.find("an item has 5e+08 operations"), std::string::npos);
}

TEST_F(DeviceTimerTest, SaysWhatFails) {
  DeviceTimer timer = Timer();
  v1::Executable broken = Compiled(kKernel);
  broken.set_object("no object");
  EXPECT_NE(timer.Time(broken, kNoLimit).fault, "");
  v1::Executable large = Compiled(kKernel);
  large.mutable_signature()->mutable_parameters(0)->set_bytes(uint64_t{1} << 30);
  EXPECT_NE(timer.Time(large, kNoLimit).fault, "");
  EXPECT_EQ(timer.Time(Compiled(kKernel), kNoLimit).fault, "");  // and goes on
  cancelled_ = true;
  EXPECT_NE(timer.Time(Compiled(kKernel), kNoLimit).fault, "");
  EXPECT_FALSE(timer.Wanted().ok());
}

TEST_F(DeviceTimerTest, CallsEveryJobOnce) {
  DeviceTimer timer = Timer();
  for (size_t count : {0, 1, 50}) {
    std::vector<std::atomic<int>> calls(count);
    std::vector<absl::AnyInvocable<void()>> jobs;
    for (std::atomic<int>& call : calls) jobs.emplace_back([&call] { ++call; });
    timer.InParallel(std::move(jobs));
    for (const std::atomic<int>& call : calls) EXPECT_EQ(call, 1);
  }
}

TEST_F(DeviceTimerTest, TheServersEndEndsIt) {
  DeviceTimer timer = Timer();
  EXPECT_TRUE(timer.Wanted().ok());
  EXPECT_GT(timer.LeftMicros(), 1e6);
  stopping_ = true;
  EXPECT_TRUE(absl::IsCancelled(timer.Wanted()));
}

}  // namespace
}  // namespace kiln::server
