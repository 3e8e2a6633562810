#include "server/fair/fair_mutex.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"

namespace kiln::server {
namespace {

absl::Status Always() { return absl::OkStatus(); }

// With slices of no length each passes it on whenever another waits.
TEST(FairMutexTest, OneAtATimeAndEveryoneInTurn) {
  FairMutex mutex;
  std::atomic<int> inside{0}, most{0}, ready{0};
  std::vector<int> order;  // under the lock
  std::vector<std::thread> threads;
  for (int tenant = 0; tenant < 3; ++tenant) {
    threads.emplace_back([&, tenant] {
      FairMutex::Holder holder(mutex, {.tenant = static_cast<uint64_t>(tenant + 1)}, Always);
      EXPECT_TRUE(holder.Lock().ok());
      ++ready;
      while (ready + static_cast<int>(mutex.waiting()) < 3) std::this_thread::yield();
      for (int i = 0; i < 100; ++i) {
        most = std::max<int>(most, ++inside);
        order.push_back(tenant);
        --inside;
        EXPECT_TRUE(holder.Yield(absl::ZeroDuration()).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  ASSERT_EQ(order.size(), 300u);
  // Nobody had it for long while others waited: all have begun before anybody ends.
  for (int tenant = 0; tenant < 3; ++tenant)
    EXPECT_LT(std::find(order.begin(), order.end(), tenant) - order.begin(), 100) << tenant;
}

TEST(FairMutexTest, WhoIsNotWantedAnyMoreLeavesTheLine) {
  FairMutex mutex;
  FairMutex::Holder first(mutex, {.tenant = 1}, Always);
  ASSERT_TRUE(first.Lock().ok());
  std::atomic<bool> stop{false};
  absl::Status outcome;
  std::thread second([&] {
    FairMutex::Holder holder(mutex, {.tenant = 2},
                             [&] { return stop ? MakeError(v1::CALL_CANCELLED, "stopped") : absl::OkStatus(); });
    outcome = holder.Lock();
  });
  while (mutex.waiting() == 0) std::this_thread::yield();
  stop = true;
  second.join();
  EXPECT_TRUE(absl::IsCancelled(outcome));
  EXPECT_EQ(mutex.waiting(), 0u);
  EXPECT_TRUE(first.Yield(absl::ZeroDuration()).ok());
  first.Unlock();
  FairMutex::Holder third(mutex, {.tenant = 2}, Always);
  EXPECT_TRUE(third.Lock().ok());
}

TEST(FairMutexTest, WhoHasItForLessThanASliceKeepsIt) {
  FairMutex mutex;
  FairMutex::Holder first(mutex, {.tenant = 1}, Always);
  ASSERT_TRUE(first.Lock().ok());
  absl::Notification got;
  std::thread second([&] {
    FairMutex::Holder holder(mutex, {.tenant = 2}, Always);
    EXPECT_TRUE(holder.Lock().ok());
    EXPECT_GT(holder.waited(), absl::ZeroDuration());
    got.Notify();
  });
  while (mutex.waiting() == 0) std::this_thread::yield();
  EXPECT_TRUE(first.Yield(absl::Hours(1)).ok());
  EXPECT_FALSE(got.HasBeenNotified());
  first.Unlock();
  second.join();
}

}  // namespace
}  // namespace kiln::server
