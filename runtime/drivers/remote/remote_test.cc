// A job of three ranks in threads of this process: rank 0's devices of the other ranks
// are used as any device is, and are these ranks' CPUs. tests/hal tests what all devices do.
#include "runtime/hal/remote.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "runtime/testing/loopback_job.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime::remote {
namespace {

using hal::BufferSlice;
using hal::MemoryUse;

constexpr uint32_t kRanks = 3;
constexpr uint32_t kDevicesEach = 2;
constexpr uint64_t kMemory = testing::LoopbackJob::kMemoryOfRank;

class RemoteTest : public ::testing::Test {
 protected:
  void Start(absl::Duration silence = absl::Seconds(60)) {
    const auto handler = [](cluster::Transport& transport, absl::string_view task, const cluster::Ranges&) {
      return absl::AlreadyExistsError(absl::StrCat(task, " of rank ", transport.rank()));
    };
    job_.emplace(kRanks, kDevicesEach, handler, silence);
    devices_ = job_->TakeDevices();
  }

  hal::Device& device() { return *devices_[0]; }

  BufferSlice Take(hal::Device& device, uint64_t bytes, MemoryUse use = MemoryUse::kClient) {
    return BufferSlice::Whole(*device.allocator().Allocate(bytes, use));
  }

  template <typename Start>
  absl::Status Wait(const Start& start) {
    absl::Status outcome;
    absl::Notification done;
    start([&](absl::Status status) {
      outcome = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  }
  absl::Status Write(const BufferSlice& to, const void* from) {
    return Wait([&](auto done) { QueueOf(to).Write(from, to, std::move(done)); });
  }
  absl::Status Read(const BufferSlice& from, void* to) {
    return Wait([&](auto done) { QueueOf(from).Read(from, to, std::move(done)); });
  }
  static hal::Queue& QueueOf(const BufferSlice& slice) {
    return const_cast<hal::Device*>(slice.buffer->device())->queue();
  }
  BufferSlice Floats(hal::Device& device, const std::vector<float>& values) {
    const BufferSlice slice = Take(device, 4 * values.size(), MemoryUse::kProgram);
    EXPECT_EQ(Write(slice, values.data()), absl::OkStatus());
    return slice;
  }
  // What work that has ended still held is free; once more, since it is cleared by the
  // queue, too, before it can be had again.
  void Settle() {
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(device().queue().Drain(absl::InfiniteFuture()).ok());
  }
  std::vector<float> ReadFloats(const BufferSlice& slice) {
    std::vector<float> values(slice.bytes / 4);
    EXPECT_EQ(Read(slice, values.data()), absl::OkStatus());
    return values;
  }

  absl::StatusOr<std::vector<BufferSlice>> Run(const std::shared_ptr<LoadedExecutable>& program,
                                               const std::vector<BufferSlice>& parameters,
                                               const RunOptions& options = {}) {
    std::vector<BufferSlice> results;
    const absl::Status status = Wait([&](auto done) {
      executor_.Run(program, parameters, options,
                    [&results, done = std::move(done)](absl::StatusOr<RunResult> result) mutable {
                      if (result.ok()) results.assign(result->results.begin(), result->results.end());
                      done(result.status());
                    });
    });
    if (!status.ok()) return status;
    return results;
  }

  std::optional<testing::LoopbackJob> job_;
  std::vector<std::unique_ptr<hal::Device>> devices_;
  Executor executor_;
};

TEST_F(RemoteTest, DevicesSayWhatAndWhereTheyAre) {
  Start();
  ASSERT_EQ(devices_.size(), 4u);
  EXPECT_EQ(devices_[0]->name(), "CPU:2");
  EXPECT_EQ(devices_[3]->name(), "CPU:5");
  EXPECT_EQ(devices_[3]->remote()->rank(), 2u);
  const std::string description(devices_[3]->description());
  EXPECT_NE(description.find(", rank 2 on host2"), std::string::npos) << description;
  EXPECT_EQ(device().target().kind(), v1::Target::CPU);
  EXPECT_EQ(device().stats().memory.limit_bytes, kMemory / kDevicesEach);
  EXPECT_EQ(device().health(), absl::OkStatus());
}

// The cache does not keep so large a buffer: the other rank clears it when it is freed.
TEST_F(RemoteTest, MemoryThatIsTooLargeForTheCacheIsClean) {
  Start();
  const uint64_t bytes = kMemory / kDevicesEach / 2 + 1;
  for (int iteration = 0; iteration < 3; ++iteration) {
    Settle();
    const BufferSlice slice = Take(device(), bytes);
    std::string got(bytes, '?');
    EXPECT_EQ(Read(slice, got.data()), absl::OkStatus());
    EXPECT_TRUE(got == std::string(bytes, '\0'));
    const std::string ones(bytes, '\1');
    EXPECT_EQ(Write(slice, ones.data()), absl::OkStatus());
  }
}

// What is freed behind work that runs is cleared behind it, and so cannot be had by it.
TEST_F(RemoteTest, WorkIsNotGivenMemoryThatIsClearedBehindIt) {
  Start();
  const uint64_t bytes = 30 << 20;  // of 32 MiB; too much for the cache
  BufferSlice old = Take(device(), bytes);
  absl::Notification begun, freed, done;
  BufferSlice made;
  const std::string text(bytes, 'x');
  device().queue().Submit(
      [&] {
        begun.Notify();
        freed.WaitForNotification();
        const auto buffer = device().allocator().Allocate(bytes, MemoryUse::kProgram);
        ASSERT_TRUE(buffer.ok()) << buffer.status();
        made = BufferSlice::Whole(*buffer);
        EXPECT_EQ(device().Store(text.data(), bytes, made.device_data()), absl::OkStatus());
        done.Notify();
      },
      1);
  begun.WaitForNotification();
  old = BufferSlice();
  freed.Notify();
  done.WaitForNotification();
  std::string got(bytes, '?');
  EXPECT_EQ(Read(made, got.data()), absl::OkStatus());
  EXPECT_TRUE(got == text);
}

TEST_F(RemoteTest, ProgramsRun) {
  Start();
  for (const auto& device : devices_) {
    const auto program = Load(testing::AddProgram(1000, device->target()), *device);
    ASSERT_TRUE(program.ok()) << program.status();
    std::vector<float> a(1000), expected(1000);
    std::iota(a.begin(), a.end(), 0.f);
    for (size_t i = 0; i < a.size(); ++i) expected[i] = a[i] + 3.5f;
    for (int run = 0; run < 3; ++run) {
      const auto results = Run(*program, {Floats(*device, a), Floats(*device, std::vector<float>(1000, 3))});
      ASSERT_TRUE(results.ok()) << results.status();
      EXPECT_EQ(ReadFloats(results->front()), expected);
    }
    EXPECT_EQ((*program)->runs(), 3u);
    EXPECT_EQ(device->stats().launches, 6u);
    EXPECT_EQ(device->stats().modules, 1u);
  }
}

// `double_it` over many elements is long enough to be met in the middle, or has not begun.
TEST_F(RemoteTest, StopsAndDeadlinesReachTheOtherSide) {
  Start();
  const int64_t count = 4 << 20;
  const auto program = *Load(testing::DoubleProgram(count, device().target()), device());
  const BufferSlice x = Take(device(), 4 * count);
  RunOptions options;
  options.control.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(DetailOf(Run(program, {x}, options).status())->code(), v1::DEADLINE_PASSED);
  std::atomic<bool> cancelled{true};
  options.control = {&cancelled};
  EXPECT_EQ(Run(program, {x}, options).status().code(), absl::StatusCode::kCancelled);
  options.control.deadline = absl::Now() + absl::Seconds(60);
  cancelled = false;
  EXPECT_TRUE(Run(program, {x}, options).ok());
}

TEST_F(RemoteTest, TasksAreTheHandlers) {
  Start();
  absl::Status status;
  absl::Notification done;
  hal::Device& last = *devices_[3];
  last.queue().Submit(
      [&] {
        status = last.remote()->Do("a song");
        done.Notify();
      },
      0);
  done.WaitForNotification();
  EXPECT_EQ(status, absl::AlreadyExistsError("a song of rank 2"));
}

// One process falls silent: all its devices end with their names, and the other process goes on.
TEST_F(RemoteTest, ADeadRankTakesAllItsDevices) {
  Start(absl::Seconds(2));
  const auto program = *Load(testing::DoubleProgram(2, device().target()), device());
  const BufferSlice x = Floats(device(), {1, 2});
  job_->Silence(1);
  const auto check = [&](const absl::Status& status, const std::string& name) {
    ASSERT_TRUE(DetailOf(status).has_value()) << status;
    EXPECT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING);
    EXPECT_EQ(DetailOf(status)->field(), name);
    EXPECT_NE(status.message().find("rank 1 on host1 is dead"), absl::string_view::npos) << status;
  };
  check(Run(program, {x}).status(), "CPU:2");
  check(devices_[1]->health(), "CPU:3");
  check(Load(testing::DoubleProgram(2, device().target()), *devices_[1]).status(), "CPU:3");
  for (size_t other : {2u, 3u}) EXPECT_EQ(ReadFloats(Floats(*devices_[other], {7})), std::vector<float>({7}));
}

}  // namespace
}  // namespace kiln::runtime::remote
