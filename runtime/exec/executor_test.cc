#include "runtime/exec/executor.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/null/device.h"
#include "runtime/exec/load.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime {
namespace {

using hal::BufferSlice;
using testing::Floats;
using testing::ReadFloats;

using Outcome = absl::StatusOr<std::vector<BufferSlice>>;

// Runs and waits; the results are moved out of the callback.
Outcome RunAndWait(Executor& executor, std::shared_ptr<LoadedExecutable> program, std::vector<BufferSlice> parameters,
                   const RunOptions& options = {}) {
  Outcome outcome = absl::UnknownError("not called");
  absl::Notification done;
  executor.Run(std::move(program), parameters, options, [&](absl::StatusOr<RunResult> result) {
    if (result.ok()) {
      EXPECT_GE(result->queue_seconds, 0);
      EXPECT_GE(result->device_seconds, 0);
      std::vector<BufferSlice> slices;
      for (BufferSlice& slice : result->results) slices.push_back(std::move(slice));
      outcome = std::move(slices);
    } else {
      outcome = result.status();
    }
    done.Notify();
  });
  done.WaitForNotification();
  return outcome;
}

class ExecutorTest : public ::testing::Test {
 protected:
  std::shared_ptr<LoadedExecutable> LoadOrDie(const v1::Executable& executable) {
    auto program = Load(executable, *device_);
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }

  std::unique_ptr<hal::Device> device_ = *cpu::CreateDevice({.threads = 2});
  Executor executor_;
};

TEST_F(ExecutorTest, RunsStepsOverArenaAndConstants) {
  for (const int64_t n : {1, 5, 1000, 5000, 200'000}) {
    const auto program = LoadOrDie(testing::AddProgram(n, device_->target()));
    std::vector<float> a(n), b(n), expected(n);
    for (int64_t i = 0; i < n; ++i) {
      a[i] = static_cast<float>(i);
      b[i] = 2;
      expected[i] = a[i] + 2.5f;
    }
    const Outcome outcome = RunAndWait(executor_, program, {Floats(*device_, a), Floats(*device_, b)});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_EQ(outcome->size(), 1);
    EXPECT_EQ(ReadFloats((*outcome)[0]), expected);
    EXPECT_EQ(program->runs(), 1);
  }
}

TEST_F(ExecutorTest, ALimitOfTheDevicesIsOneForAllOfARun) {
  const auto device = *null::CreateDevice({.longest_run = absl::Hours(1)});
  const auto program = *Load(testing::AddProgram(4, device->target()), *device);
  const std::vector<BufferSlice> parameters = {Floats(*device, {1, 2, 3, 4}), Floats(*device, {1, 2, 3, 4})};
  const auto deadlines = [&](absl::Time asked) {
    RunOptions options;
    options.control.deadline = asked;
    EXPECT_TRUE(RunAndWait(executor_, program, parameters, options).ok());
    std::vector<absl::Time> found;
    for (const null::Launch& launch : device->TakeLaunches()) found.push_back(launch.deadline);
    EXPECT_GT(found.size(), 1u);
    return found;
  };
  const absl::Time before = SteadyNow();
  const std::vector<absl::Time> limited = deadlines(absl::InfiniteFuture());
  EXPECT_GE(limited.front(), before + absl::Hours(1));
  EXPECT_LE(limited.front(), SteadyNow() + absl::Hours(1));
  EXPECT_EQ(limited, std::vector<absl::Time>(limited.size(), limited.front()));
  const absl::Time earlier = SteadyNow() + absl::Minutes(30);
  EXPECT_EQ(deadlines(earlier), std::vector<absl::Time>(limited.size(), earlier));
}

TEST_F(ExecutorTest, ZeroSizes) {
  const auto program = LoadOrDie(testing::AddProgram(0, device_->target()));
  const Outcome outcome = RunAndWait(executor_, program, {Floats(*device_, {}), Floats(*device_, {})});
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ((*outcome)[0].bytes, 0);
  EXPECT_NE((*outcome)[0].buffer, nullptr);
}

TEST_F(ExecutorTest, UpdatesInPlaceAndReturnsTheParameter) {
  const auto program = LoadOrDie(testing::DoubleProgram(3, device_->target()));
  const BufferSlice whole = Floats(*device_, {9, 1, 2, 3, 9});
  const BufferSlice x{whole.buffer, 4, 12};
  for (int run = 0; run < 2; ++run) {
    const Outcome outcome = RunAndWait(executor_, program, {x});
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_EQ((*outcome)[0].buffer, whole.buffer);
    EXPECT_EQ((*outcome)[0].offset, 4);
  }
  EXPECT_EQ(ReadFloats(whole), std::vector<float>({9, 4, 8, 12, 9}));
}

TEST_F(ExecutorTest, WritesToPreallocatedResults) {
  const auto program = LoadOrDie(testing::AddProgram(2, device_->target()));
  const std::vector<BufferSlice> out = {Floats(*device_, {0, 0})};
  RunOptions options;
  options.results = out;
  const Outcome outcome = RunAndWait(executor_, program, {Floats(*device_, {1, 2}), Floats(*device_, {3, 4})}, options);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ((*outcome)[0].buffer, out[0].buffer);
  EXPECT_EQ(ReadFloats(out[0]), std::vector<float>({4.5, 6.5}));
}

TEST_F(ExecutorTest, RunsThatAreQueuedTogetherKeepTheirOrder) {
  const auto program = LoadOrDie(testing::DoubleProgram(1, device_->target()));
  const auto spin = LoadOrDie(testing::SpinProgram(device_->target()));
  const BufferSlice x = Floats(*device_, {1});
  const auto flag = BufferSlice::Whole(*device_->allocator().Allocate(1, hal::MemoryUse::kClient));
  absl::BlockingCounter left(11);
  executor_.Run(spin, {flag}, {}, [&](absl::StatusOr<RunResult> result) { left.DecrementCount(); });
  for (int i = 0; i < 10; ++i) {
    executor_.Run(program, {x}, {}, [&](absl::StatusOr<RunResult> result) { left.DecrementCount(); });
  }
  // None has run: they wait behind the spinning one, and not on this thread.
  EXPECT_EQ(ReadFloats(x), std::vector<float>({1}));
  static_cast<std::atomic<char>*>(flag.host_data())->store(1);
  left.Wait();
  EXPECT_EQ(ReadFloats(x), std::vector<float>({1024}));
}

TEST_F(ExecutorTest, ProgramAndBuffersMayBeDroppedWhileARunIsQueued) {
  auto spin = LoadOrDie(testing::SpinProgram(device_->target()));
  auto program = LoadOrDie(testing::AddProgram(1, device_->target()));
  const auto flag = BufferSlice::Whole(*device_->allocator().Allocate(1, hal::MemoryUse::kClient));
  executor_.Run(std::move(spin), {flag}, {}, [](absl::StatusOr<RunResult>) {});
  std::vector<float> seen;
  executor_.Run(std::move(program), {Floats(*device_, {1}), Floats(*device_, {2})}, {},
                [&](absl::StatusOr<RunResult> result) { seen = ReadFloats(result->results[0]); });
  static_cast<std::atomic<char>*>(flag.host_data())->store(1);
  ASSERT_TRUE(device_->queue().Drain(absl::InfiniteFuture()).ok());
  EXPECT_EQ(seen, std::vector<float>({3.5}));
  EXPECT_EQ(device_->stats().modules, 0);
}

TEST_F(ExecutorTest, BadArgumentsFailAtOnce) {
  const auto program = LoadOrDie(testing::AddProgram(2, device_->target()));
  const Outcome outcome = RunAndWait(executor_, program, {Floats(*device_, {1, 2}), Floats(*device_, {1})});
  EXPECT_EQ(DetailOf(outcome.status())->code(), v1::BUFFER_SIZE_MISMATCH);
  EXPECT_EQ(program->runs(), 0);
}

TEST_F(ExecutorTest, CancelledAndLateRunsDoNothing) {
  const auto program = LoadOrDie(testing::DoubleProgram(1, device_->target()));
  const BufferSlice x = Floats(*device_, {1});
  const std::atomic<bool> cancelled{true};
  RunOptions options;
  options.control.cancelled = &cancelled;
  EXPECT_EQ(RunAndWait(executor_, program, {x}, options).status().code(), absl::StatusCode::kCancelled);
  options.control = {.deadline = absl::InfinitePast()};
  EXPECT_EQ(DetailOf(RunAndWait(executor_, program, {x}, options).status())->code(), v1::DEADLINE_PASSED);
  EXPECT_EQ(ReadFloats(x), std::vector<float>({1}));
  EXPECT_TRUE(RunAndWait(executor_, program, {x}).ok());
  EXPECT_EQ(ReadFloats(x), std::vector<float>({2}));
}

TEST_F(ExecutorTest, RunsOutOfMemoryAndRecovers) {
  const auto small = *cpu::CreateDevice({.threads = 1, .memory_limit_bytes = 1 << 20});
  constexpr int64_t kCount = 40'000;  // 160 kB each: two parameters, constants, arena, result
  auto program = Load(testing::AddProgram(kCount, small->target()), *small);
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<BufferSlice> parameters = {Floats(*small, std::vector<float>(kCount, 1)),
                                               Floats(*small, std::vector<float>(kCount, 2))};
  auto ballast = small->allocator().Allocate(400 << 10, hal::MemoryUse::kClient);
  ASSERT_TRUE(ballast.ok());
  EXPECT_EQ(DetailOf(RunAndWait(executor_, *program, parameters).status())->code(), v1::OUT_OF_MEMORY);
  ballast->reset();
  const Outcome outcome = RunAndWait(executor_, *program, parameters);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(ReadFloats((*outcome)[0]), std::vector<float>(kCount, 3.5f));
}

TEST_F(ExecutorTest, AnArenaCountsForWhoRunsAsLongAsHeDoes) {
  constexpr int64_t kCount = 1000;  // 4000 bytes each: arena, result
  const auto program = LoadOrDie(testing::AddProgram(kCount, device_->target()));
  const std::vector<BufferSlice> parameters = {Floats(*device_, std::vector<float>(kCount, 1)),
                                               Floats(*device_, std::vector<float>(kCount, 2))};
  Account account;
  const auto run = [&](uint64_t limit) {
    QuotaLimits limits = {};
    limits[static_cast<size_t>(Quota::kDeviceBytes)] = limit;
    account.SetLimits(limits);
    RunOptions options;
    options.control.account = &account;
    return RunAndWait(executor_, program, parameters, options);
  };
  EXPECT_EQ(DetailOf(run(7000).status())->code(), v1::QUOTA_EXCEEDED);
  EXPECT_EQ(account.used(Quota::kDeviceBytes), 0u);
  const Outcome outcome = run(9000);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(account.used(Quota::kDeviceBytes), 4000u) << "the result";
}

TEST_F(ExecutorTest, CallbackMayRunTheNext) {
  const auto program = LoadOrDie(testing::DoubleProgram(1, device_->target()));
  const BufferSlice x = Floats(*device_, {1});
  absl::Notification done;
  executor_.Run(program, {x}, {}, [&](absl::StatusOr<RunResult>) {
    executor_.Run(program, {x}, {}, [&](absl::StatusOr<RunResult>) { done.Notify(); });
  });
  done.WaitForNotification();
  EXPECT_EQ(ReadFloats(x), std::vector<float>({4}));
}

TEST_F(ExecutorTest, ManyThreadsRunOneProgram) {
  const auto program = LoadOrDie(testing::AddProgram(3000, device_->target()));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const std::vector<BufferSlice> in = {Floats(*device_, std::vector<float>(3000, t)),
                                           Floats(*device_, std::vector<float>(3000, 1))};
      for (int i = 0; i < 200; ++i) {
        const Outcome outcome = RunAndWait(executor_, program, in);
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        ASSERT_EQ(ReadFloats((*outcome)[0]), std::vector<float>(3000, t + 1.5f));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(program->runs(), 800);
}

class RunLog final : public RuntimeObserver {
 public:
  void OnRun(const RunRecord& record) override {
    absl::MutexLock lock(&mutex_);
    log_ += absl::StrCat("run ", record.device, " ", record.launches, " ", static_cast<int>(record.outcome), "\n");
  }
  bool WantsLaunches(uint64_t) const override { return true; }
  void OnLaunch(const LaunchRecord& record) override {
    absl::MutexLock lock(&mutex_);
    EXPECT_GE(record.seconds, 0);
    log_ += absl::StrCat("launch ", record.kernel, "\n");
  }
  std::string Take() {
    absl::MutexLock lock(&mutex_);
    return std::exchange(log_, "");
  }

 private:
  absl::Mutex mutex_;
  std::string log_;
};

TEST_F(ExecutorTest, TheObserverSeesRunsAndLaunches) {
  RunLog log;
  Executor executor(&log);
  const auto program = LoadOrDie(testing::AddProgram(1, device_->target()));
  const std::vector<BufferSlice> in = {Floats(*device_, {1}), Floats(*device_, {2})};
  ASSERT_TRUE(RunAndWait(executor, program, in).ok());
  EXPECT_EQ(log.Take(), "launch add\nlaunch add\nrun CPU:0 2 0\n");
  RunOptions options;
  options.control.deadline = absl::InfinitePast();
  EXPECT_FALSE(RunAndWait(executor, program, in, options).ok());
  EXPECT_EQ(log.Take(), "run CPU:0 0 4\n");
}

TEST(ExecutorOnNull, LaunchesAreKept) {
  const auto device = *null::CreateDevice({});
  Executor executor;
  const auto program = *Load(testing::DoubleProgram(2, device->target()), *device);
  const BufferSlice x = Floats(*device, {1, 2});
  ASSERT_TRUE(RunAndWait(executor, program, {x}).ok());
  const std::vector<null::Launch> launches = device->TakeLaunches();
  ASSERT_EQ(launches.size(), 1);
  EXPECT_EQ(launches[0].symbol, "double_it");
  EXPECT_EQ(launches[0].buffers, std::vector<void*>({x.device_data()}));
  EXPECT_EQ(ReadFloats(x), std::vector<float>({1, 2}));
  EXPECT_TRUE(device->TakeLaunches().empty());
}

}  // namespace
}  // namespace kiln::runtime
