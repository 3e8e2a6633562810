// A warm run must not touch the heap. This test replaces the global operator new
// and counts, in a binary of its own.
#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "runtime/testing/programs.h"

namespace {
std::atomic<uint64_t> allocations{0};
}  // namespace

// A sanitizer brings operators of its own, and they cannot be replaced.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define KILN_COUNTS_ALLOCATIONS 0
#elif defined(__has_feature)
#define KILN_COUNTS_ALLOCATIONS (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#else
#define KILN_COUNTS_ALLOCATIONS 1
#endif

#if KILN_COUNTS_ALLOCATIONS
static void* Allocate(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

void* operator new(std::size_t bytes) { return Allocate(bytes); }
void* operator new[](std::size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace kiln::runtime {
namespace {

using hal::BufferSlice;

class WarmRunTest : public ::testing::Test {
 protected:
  // What `runs` runs allocate, one after the other, once the program is warm: the least of a few rounds, since
  // a run may begin before the one that called back is in the pool again, and then the pool grows, once.
  template <typename Runnable>
  uint64_t AllocationsOf(const std::shared_ptr<Runnable>& program, const std::vector<BufferSlice>& parameters,
                         const RunOptions& options, int runs) {
    std::atomic<int> done{0};
    std::atomic<int> failed{0};
    const auto start = [&] {
      executor_.Run(program, parameters, options, [&done, &failed](absl::StatusOr<RunResult> result) {
        if (!result.ok()) ++failed;
        ++done;
        done.notify_one();
      });
    };
    const auto wait = [&](int count) {
      for (int seen = done; seen < count; seen = done) done.wait(seen);
    };
    // Several at once: a run's callback comes just before its return to the
    // pool, so the next may need a second one.
    for (int i = 0; i < kWarmRuns; ++i) start();
    wait(kWarmRuns);
    EXPECT_TRUE(device_->queue().Drain(absl::InfiniteFuture()).ok());
    uint64_t least = UINT64_MAX;
    for (int round = 0, started = kWarmRuns; round < kRounds; ++round) {
      const uint64_t before = allocations;
      for (int i = 0; i < runs; ++i) {
        start();
        wait(++started);
      }
      least = std::min(least, allocations - before);
    }
    EXPECT_EQ(failed, 0);
    return least;
  }

  static constexpr int kWarmRuns = 10, kRounds = 3;
  std::unique_ptr<hal::Device> device_ = *cpu::CreateDevice({.threads = 2});
  Executor executor_;
};

TEST_F(WarmRunTest, InPlaceAllocatesNothing) {
  // One that runs inline, and one that goes over the pool and the queue's
  // thread.
  for (const int64_t n : {16, 2'000'000}) {
    const auto program = *Load(testing::DoubleProgram(n, device_->target()), *device_);
    const std::vector<BufferSlice> x = {testing::Floats(*device_, std::vector<float>(n, 0))};
    EXPECT_EQ(AllocationsOf(program, x, {}, 100), 0) << n;
  }
}

// But the handle of scratch memory that is too large to stay between two runs.
TEST_F(WarmRunTest, PreallocatedResultsAllocateNothing) {
  for (const auto& [n, each] : {std::pair(int64_t{16}, 0), std::pair(int64_t{500'000}, 2)}) {
    const auto program = *Load(testing::AddProgram(n, device_->target()), *device_);
    const std::vector<float> zeros(n, 0);
    const std::vector<BufferSlice> in = {testing::Floats(*device_, zeros), testing::Floats(*device_, zeros)};
    const std::vector<BufferSlice> out = {testing::Floats(*device_, zeros)};
    std::atomic<bool> cancelled{false};
    RunOptions options;
    options.results = out;
    options.control = {&cancelled, absl::Now() + absl::Hours(1)};
    options.control.domain = MemoryDomain::kFirst;
    EXPECT_LE(AllocationsOf(program, in, options, 100), 100 * each) << n;
  }
}

TEST_F(WarmRunTest, FreshResultsReuseMemory) {
  const auto program = *Load(testing::AddProgram(100'000, device_->target()), *device_);
  const std::vector<float> zeros(100'000, 0);
  const std::vector<BufferSlice> in = {testing::Floats(*device_, zeros), testing::Floats(*device_, zeros)};
  AllocationsOf(program, in, {}, 100);
  const hal::AllocatorStats stats = device_->stats().memory;
  // The buffer object is new each time; the memory is the first run's.
  EXPECT_GE(stats.reuses, 109);
}

TEST_F(WarmRunTest, AStepOfASequenceAllocatesNothing) {
  const auto program = *Load(testing::DoubleProgram(16, device_->target()), *device_);
  const std::vector<BufferSlice> x = {testing::Floats(*device_, std::vector<float>(16, 0))};
  const auto of_steps = [&](size_t steps) {
    const std::shared_ptr<const Sequence> sequence =
        *Sequence::Make(device_.get(), std::vector<SequenceStep>(steps, {program, {{0, 0}}, {}}));
    return AllocationsOf(sequence, x, {}, 100);
  };
  const uint64_t of_one = of_steps(1);
  EXPECT_LE(of_one, 100 * 4) << "a run, its slices, its pointers";
  EXPECT_EQ(of_steps(1000), of_one);
}

TEST_F(WarmRunTest, TheCounterCounts) {
  if (!KILN_COUNTS_ALLOCATIONS) GTEST_SKIP() << "under a sanitizer, nothing is counted";
  const uint64_t before = allocations;
  ::operator delete(::operator new(1));  // a call, which may not be left out
  EXPECT_EQ(allocations - before, 1);
}

}  // namespace
}  // namespace kiln::runtime
