#include "runtime/drivers/cpu/device.h"

#include <atomic>
#include <cstdlib>
#include <thread>

#include "absl/time/clock.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime::cpu {
namespace {

std::unique_ptr<hal::Device> NewDevice(DeviceOptions options = {}) {
  auto device = CreateDevice(std::move(options));
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

TEST(CpuDevice, DescribesItself) {
  unsetenv("KILN_CPU_TARGET");  // which says how many cores, whatever the options say
  const auto device = NewDevice({.name = "CPU:3", .threads = 2});
  EXPECT_EQ(device->name(), "CPU:3");
  EXPECT_EQ(device->target().kind(), v1::Target::CPU);
  EXPECT_EQ(device->target().tuning().cores(), 2);
  EXPECT_FALSE(device->description().empty());
  EXPECT_GT(device->stats().memory.limit_bytes, 0);
}

TEST(CpuDevice, HoldsItsMemoryLimit) {
  const auto device = NewDevice({.threads = 1, .memory_limit_bytes = 1 << 20});
  EXPECT_TRUE(device->allocator().Allocate(1 << 20, hal::MemoryUse::kClient).ok());
  const auto refused = device->allocator().Allocate((1 << 20) + 1, hal::MemoryUse::kClient);
  EXPECT_EQ(DetailOf(refused.status())->limit_value(), 1 << 20);
}

// What runs need between their kernels is the device's again when they have ended.
TEST(CpuDevice, LargeScratchMemoryIsKeptForNobody) {
  constexpr uint64_t kLimit = 64 << 20, kLarge = 8 << 20, kSmall = 4096;
  const auto device = NewDevice({.threads = 1, .memory_limit_bytes = kLimit});
  const auto use = [&](uint64_t bytes) {
    uint64_t meanwhile = 0;
    device->queue().Submit(
        [&] {
          EXPECT_TRUE(device->Scratch(bytes, nullptr, MemoryDomain::kFirst).ok());
          meanwhile = device->stats().memory.in_use_bytes;
        },
        0);
    EXPECT_EQ(device->queue().Drain(absl::InfiniteFuture()), absl::OkStatus());
    return meanwhile;
  };
  EXPECT_GE(use(kSmall), kSmall);
  const uint64_t before = device->stats().memory.in_use_bytes;
  for (int run = 0; run < 3; ++run) {
    EXPECT_GE(use(kLarge), kLarge) << "it counts while it is held";
    EXPECT_LE(device->stats().memory.in_use_bytes, before);
    // It waits for the next run, which finds it there, and gives way to whoever needs it.
    EXPECT_GE(device->stats().memory.cached_bytes, kLarge);
  }
  EXPECT_EQ(device->stats().memory.reuses, 2u);
  EXPECT_TRUE(device->allocator().Allocate(kLimit - (1 << 20), hal::MemoryUse::kClient).ok());
}

TEST(CpuDevice, SeveralShareAPool) {
  WorkerPool::Options pool;
  pool.threads = 2;
  const auto shared = std::make_shared<WorkerPool>(pool);
  const auto a = NewDevice({.name = "CPU:0", .pool = shared});
  const auto b = NewDevice({.name = "CPU:1", .pool = shared});
  EXPECT_EQ(shared.use_count(), 3);
  EXPECT_EQ(a->target().SerializeAsString(), b->target().SerializeAsString());
}

class CpuModuleTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  // Launches double_it over `n` floats of 1 in chunks of at least 1024.
  absl::Status Double(int64_t n, const hal::LaunchControl& control) {
    auto module = device_->LoadModule(testing::DoubleProgram(n, device_->target()));
    EXPECT_TRUE(module.ok()) << module.status();
    EXPECT_EQ(device_->stats().modules, 1);
    x_.assign(n, 1.0f);
    void* const buffers[] = {x_.data()};
    return (*module)->Launch(0, buffers, control);
  }

  std::unique_ptr<hal::Device> device_ = NewDevice({.threads = GetParam()});
  std::vector<float> x_;
};

TEST_P(CpuModuleTest, LaunchCoversAllIterations) {
  for (const int64_t n : {0, 1, 1000, 1024, 1025, 100'000}) {
    EXPECT_TRUE(Double(n, {}).ok());
    EXPECT_EQ(x_, std::vector<float>(n, 2.0f));
  }
  EXPECT_EQ(device_->stats().launches, 6);
  EXPECT_EQ(device_->stats().modules, 0);
}

TEST_P(CpuModuleTest, ControlThatDoesNotStopCoversAllIterations) {
  std::atomic<bool> cancelled{false};
  EXPECT_TRUE(Double(1'000'003, {&cancelled, absl::Now() + absl::Hours(1)}).ok());
  EXPECT_EQ(x_, std::vector<float>(1'000'003, 2.0f));
}

TEST_P(CpuModuleTest, CancelStopsALongLoop) {
  std::atomic<bool> cancelled{true};
  EXPECT_EQ(Double(100'000, {&cancelled}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(x_, std::vector<float>(100'000, 1.0f));
}

TEST_P(CpuModuleTest, DeadlineStopsALongLoop) {
  const absl::Status status = Double(100'000, {nullptr, absl::InfinitePast()});
  EXPECT_EQ(DetailOf(status)->code(), v1::DEADLINE_PASSED);
  EXPECT_EQ(x_, std::vector<float>(100'000, 1.0f));
}

// One iteration, which ends when its stop is set and not before.
TEST_P(CpuModuleTest, CancelStopsAKernelOfOneIteration) {
  auto module = device_->LoadModule(testing::EndlessProgram(device_->target()));
  ASSERT_TRUE(module.ok()) << module.status();
  std::atomic<bool> cancelled{false};
  std::atomic<uint8_t> runs{0};
  void* const buffers[] = {&runs};
  std::thread canceller([&] {
    while (runs.load() == 0) std::this_thread::yield();
    cancelled = true;
  });
  EXPECT_EQ((*module)->Launch(0, buffers, {&cancelled}).code(), absl::StatusCode::kCancelled);
  canceller.join();
}

TEST_P(CpuModuleTest, DeadlineStopsAKernelOfOneIteration) {
  auto module = device_->LoadModule(testing::EndlessProgram(device_->target()));
  ASSERT_TRUE(module.ok()) << module.status();
  uint8_t runs = 0;
  void* const buffers[] = {&runs};
  const absl::Status status = (*module)->Launch(0, buffers, {nullptr, absl::Now() + absl::Milliseconds(20)});
  EXPECT_EQ(DetailOf(status)->code(), v1::DEADLINE_PASSED);
  EXPECT_EQ(runs, 1);
}

INSTANTIATE_TEST_SUITE_P(Threads, CpuModuleTest, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace kiln::runtime::cpu
