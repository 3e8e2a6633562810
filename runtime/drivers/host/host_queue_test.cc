#include "runtime/drivers/host/host_queue.h"

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace kiln::runtime::host {
namespace {

constexpr uint64_t kLimitNs = 10'000;
constexpr uint64_t kLongNs = 1'000'000;

TEST(HostQueue, SmallWorkRunsOnTheSubmittingThread) {
  HostQueue queue(nullptr, kLimitNs);
  std::thread::id ran;
  queue.Submit([&] { ran = std::this_thread::get_id(); }, 100);
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(queue.depth(), 0);
}

TEST(HostQueue, LongWorkRunsElsewhere) {
  HostQueue queue(nullptr, kLimitNs);
  std::thread::id ran;
  queue.Submit([&] { ran = std::this_thread::get_id(); }, kLongNs);
  ASSERT_TRUE(queue.Drain(absl::InfiniteFuture()).ok());
  EXPECT_NE(ran, std::this_thread::get_id());
}

// tests/hal has this for every driver; here it runs under ThreadSanitizer, too.
TEST(HostQueue, ManySubmittersNeverOverlap) {
  std::atomic<int> inside{0};
  std::vector<std::vector<int>> seen(4);
  {
    HostQueue queue(nullptr, kLimitNs);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2000; ++i) {
          queue.Submit(
              [&, t, i] {
                EXPECT_EQ(inside.fetch_add(1), 0);
                seen[t].push_back(i);
                inside.fetch_sub(1);
              },
              i % 7 == 0 ? kLongNs : 0);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }  // the destructor waits for all of it
  for (const std::vector<int>& mine : seen) {
    ASSERT_EQ(mine.size(), 2000);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(mine[i], i);
  }
}

TEST(HostQueue, EndlessSmallWorkIsHandedOver) {
  HostQueue queue(nullptr, kLimitNs);
  // Each piece submits the next, so an owner that only looked at estimates of
  // single pieces would keep this thread until the chain ends.
  std::atomic<int> left{100'000};
  std::atomic<bool> elsewhere{false};
  const std::thread::id here = std::this_thread::get_id();
  std::function<void()> next = [&] {
    if (std::this_thread::get_id() != here) elsewhere = true;
    if (--left > 0) queue.Submit([&] { next(); }, 0);
  };
  queue.Submit([&] { next(); }, 0);
  while (left > 0) ASSERT_TRUE(queue.Drain(absl::InfiniteFuture()).ok());
  EXPECT_TRUE(elsewhere);
}

}  // namespace
}  // namespace kiln::runtime::host
