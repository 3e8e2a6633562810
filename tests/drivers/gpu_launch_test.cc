// Launches on a GPU: none waits for another, and what comes again becomes a graph.
#include <atomic>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/observer.h"
#include "tests/drivers/gpu_fixture.h"

namespace kiln::testing {
namespace {

// A module, two buffers for its kernel, and what a run of a program does with them.
class GpuLaunchTest : public GpuDeviceTest {
 protected:
  void SetUp() override {
    Open();
    module_ = *device().LoadModule(machine_->Program());
    input_ = New(128);
    output_ = New(128);
    operands_ = {output_.device_data(), input_.device_data()};
  }
  void TearDown() override {
    module_.reset();
    input_ = output_ = {};
  }
  absl::Status Launch(uint32_t steps, const runtime::hal::LaunchControl& control = {}) {
    const std::vector<runtime::hal::LaunchStep> list(steps, {0, 0, 2});
    launched_ = 0;
    absl::Status status = module_->LaunchAll(list, operands_.data(), control, launched_);
    finishes_ = Count("finish");
    status.Update(device().FinishLaunches());
    return status;
  }
  size_t Count(const std::string& meaning) { return fake_.Calls(machine_->Entry(meaning)).size(); }

  std::unique_ptr<runtime::hal::Module> module_;
  BufferSlice input_, output_;
  std::vector<void*> operands_;
  uint32_t launched_ = 0;
  size_t finishes_ = 0;  // until the launches were asked for
};

TEST_P(GpuLaunchTest, NoneWaitsForAnother) {
  const size_t before = Count("finish");
  EXPECT_EQ(Launch(1000), absl::OkStatus());
  EXPECT_EQ(launched_, 1000u);
  EXPECT_EQ(finishes_, before);
  EXPECT_EQ(Count("finish"), before + 1);
  EXPECT_EQ(device().stats().launches, 1000u);
}

// The fake's cards take a millisecond for whatever they are asked for.
TEST_P(GpuLaunchTest, TheCardsClockSaysHowLongLaunchesTook) {
  EXPECT_EQ(device().TakeLaunchSeconds(), std::nullopt);
  for (int iteration = 0; iteration < 3; ++iteration) {
    EXPECT_EQ(Launch(5), absl::OkStatus());
    ASSERT_EQ(Write(device(), Pattern(128), input_), absl::OkStatus());  // is no launch
    EXPECT_NEAR(device().TakeLaunchSeconds().value_or(0), 5e-3, 1e-6) << iteration;
    EXPECT_EQ(device().TakeLaunchSeconds(), std::nullopt);
  }
  EXPECT_EQ(Launch(2), absl::OkStatus());
  EXPECT_EQ(Launch(1), absl::OkStatus());
  EXPECT_NEAR(device().TakeLaunchSeconds().value_or(0), 3e-3, 1e-6);
}

TEST_P(GpuLaunchTest, RunsAndTheirLaunchesAreTimedByIt) {
  struct Observer final : runtime::RuntimeObserver {
    void OnRun(const runtime::RunRecord& record) override { runs.push_back(record.device_seconds); }
    bool WantsLaunches(uint64_t) const override { return wants; }
    void OnLaunch(const runtime::LaunchRecord& record) override { launches.push_back(record.seconds); }
    bool wants = false;
    std::vector<double> runs, launches;
  } observer;
  auto program = runtime::Load(machine_->Program(), device());
  ASSERT_TRUE(program.ok()) << program.status();
  for (int iteration = 0; iteration < 2; ++iteration) {
    observer.wants = iteration == 1;
    double seconds = 0;
    absl::Notification done;
    runtime::Executor(&observer).Run(*program, {&input_, 1}, {}, [&](absl::StatusOr<runtime::RunResult> run) {
      if (run.ok()) seconds = run->device_seconds;
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_NEAR(seconds, 1e-3, 1e-6);
  }
  EXPECT_TRUE(device().queue().Drain(absl::InfiniteFuture()).ok());
  EXPECT_THAT(observer.runs,
              ::testing::ElementsAre(::testing::DoubleNear(1e-3, 1e-6), ::testing::DoubleNear(1e-3, 1e-6)));
  EXPECT_THAT(observer.launches, ::testing::ElementsAre(::testing::DoubleNear(1e-3, 1e-6)));
}

TEST_P(GpuLaunchTest, AControlThatMayStopIsAskedNowAndThen) {
  std::atomic<bool> cancelled = false;
  const size_t before = Count("finish");
  EXPECT_EQ(Launch(130, {&cancelled}), absl::OkStatus());
  EXPECT_EQ(launched_, 130u);
  EXPECT_EQ(finishes_, before + 2);
  cancelled = true;
  EXPECT_EQ(Launch(130, {&cancelled}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(launched_, 64u);
}

TEST_P(GpuLaunchTest, WhatComesAgainIsLaunchedAsOne) {
  EXPECT_EQ(Launch(5), absl::OkStatus());
  EXPECT_EQ(Count("graph"), 0u);
  for (size_t iteration = 1; iteration < 4; ++iteration) {
    ASSERT_EQ(Write(device(), Pattern(128, static_cast<int>(iteration)), input_), absl::OkStatus());
    EXPECT_EQ(Launch(5), absl::OkStatus());
    EXPECT_EQ(launched_, 5u);
    EXPECT_EQ(Count("graph"), iteration);
    EXPECT_EQ(Count("launch"), 10u);  // one by one, and for the graph
    EXPECT_TRUE(*Read(device(), output_) == Pattern(128, static_cast<int>(iteration)));
  }
  // Other operands, and other steps, are others.
  std::swap(operands_[0], operands_[1]);
  EXPECT_EQ(Launch(5), absl::OkStatus());
  EXPECT_EQ(Launch(4), absl::OkStatus());
  EXPECT_EQ(Count("graph"), 3u);
  EXPECT_EQ(Count("launch"), 19u);
  std::swap(operands_[0], operands_[1]);
  EXPECT_EQ(Launch(5), absl::OkStatus());
  EXPECT_EQ(Count("graph"), 4u);
  EXPECT_EQ(Count("launch"), 19u);
  EXPECT_EQ(device().stats().launches, 34u);
}

TEST_P(GpuLaunchTest, OfManySetsOfOperandsTheOldestGoes) {
  std::vector<BufferSlice> outputs;
  for (int i = 0; i < 20; ++i) {
    outputs.push_back(New(128));
    operands_[0] = outputs.back().device_data();
    for (int iteration = 0; iteration < 2; ++iteration) EXPECT_EQ(Launch(5), absl::OkStatus());
  }
  EXPECT_EQ(Count("graph"), 20u);
  operands_[0] = outputs.front().device_data();
  EXPECT_EQ(Launch(5), absl::OkStatus());
  EXPECT_EQ(Count("graph"), 20u);
}

TEST_P(GpuLaunchTest, ALibraryThatMakesNoGraphsIsDoneWithout) {
  EXPECT_EQ(Launch(5), absl::OkStatus());
  fake_("fail " + machine_->Entry("capture") + " 1 1");
  for (int iteration = 0; iteration < 3; ++iteration) EXPECT_EQ(Launch(5), absl::OkStatus());
  EXPECT_EQ(Count("graph"), 0u);
  EXPECT_EQ(Count("launch"), 20u);
}

INSTANTIATE_TEST_SUITE_P(Cuda, GpuLaunchTest, ::testing::Values(&MakeCudaMachine));
INSTANTIATE_TEST_SUITE_P(Hip, GpuLaunchTest, ::testing::Values(&MakeHipMachine));

}  // namespace
}  // namespace kiln::testing
