#include "server/engine/programs/compile_pool.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

using runtime::hal::LaunchControl;

class CompilePoolTest : public testing::Test {
 protected:
  // Its thread is at this until release_.
  void Occupy() {
    pool_.Schedule([this] {
      occupied_.Notify();
      release_.WaitForNotification();
    });
    occupied_.WaitForNotification();
  }

  absl::Notification occupied_, release_;
  CompilePool pool_{1};
};

TEST_F(CompilePoolTest, WhatIsNotWantedAnyMoreDoesNotWait) {
  Occupy();
  std::atomic<bool> cancelled{false}, never{false};
  absl::Notification told, late, ran;
  absl::Status status, late_status;
  const LaunchControl control{&cancelled}, wanted{&never};
  pool_.Schedule(wanted, [&] { ran.Notify(); });
  pool_.Schedule(control, [&] {
    status = control.Check();
    told.Notify();
  });
  const LaunchControl hurries{nullptr, absl::Now() + absl::Milliseconds(1)};
  pool_.Schedule(hurries, [&] {
    late_status = hurries.Check();
    late.Notify();
  });
  late.WaitForNotification();
  EXPECT_TRUE(absl::IsDeadlineExceeded(late_status)) << late_status;
  EXPECT_FALSE(told.HasBeenNotified());
  cancelled = true;
  told.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_FALSE(ran.HasBeenNotified()) << "the others wait as before";
  release_.Notify();
  ran.WaitForNotification();
}

// Of sessions and tenants that are told apart.
LaunchControl Of(Account* account) {
  LaunchControl control;
  control.account = account;
  return control;
}

TEST_F(CompilePoolTest, WhoHasLongJobsWaitsForItselfAlone) {
  Account greedy("greedy", 1), other("other", 2);
  absl::Notification release;
  std::atomic<int> begun{0};
  constexpr int kOthers = 20;
  absl::BlockingCounter both(2), others(kOthers);
  {
    CompilePool pool(2, CompilePool::kMostAside);
    for (int i = 0; i < 4; ++i) {
      pool.Schedule(Of(&greedy), [&] {
        if (++begun <= 2) both.DecrementCount();
        release.WaitForNotification();
      });
    }
    both.Wait();
    for (int i = 0; i < kOthers; ++i) pool.Schedule(Of(&other), [&] { others.DecrementCount(); });
    others.Wait();
    EXPECT_EQ(begun, 2) << "what waits of a caller that has jobs set aside is served later";
    EXPECT_EQ(pool.look().waiting, 2u);
    release.Notify();
  }
  EXPECT_EQ(begun, 4);
}

TEST_F(CompilePoolTest, NothingIsSetAsideForItsOwnCaller) {
  Account greedy("greedy", 1);
  std::atomic<int> at_once{0}, most{0};
  {
    CompilePool pool(1, CompilePool::kMostAside);
    for (int i = 0; i < 2; ++i) {
      pool.Schedule(Of(&greedy), [&] {
        most = std::max(most.load(), ++at_once);
        absl::SleepFor(2 * CompilePool::kLong);
        --at_once;
      });
    }
  }
  EXPECT_EQ(most, 1);
}

TEST_F(CompilePoolTest, WhoWaitsForAnothersJobIsToldUnlessForgotten) {
  Occupy();
  std::atomic<bool> cancelled{false}, other{false};
  absl::Notification told;
  std::atomic<int> times{0};
  const CompilePool::Waiting waiting = pool_.Watch({&cancelled}, [&] {
    ++times;
    told.Notify();
  });
  const CompilePool::Waiting forgotten = pool_.Watch({&other}, [&] { ++times; });
  const CompilePool::Waiting endless = pool_.Watch(LaunchControl(), [&] { ++times; });
  EXPECT_EQ(pool_.look().waiting, 0u) << "it waits for no thread";
  EXPECT_EQ(pool_.look().joined, 2u);
  pool_.Forget(forgotten);
  pool_.Forget(forgotten);
  other = true;
  cancelled = true;
  told.WaitForNotification();
  pool_.Forget(waiting);
  pool_.Forget(endless);
  EXPECT_EQ(times, 1);
  EXPECT_EQ(pool_.look().joined, 0u);
  release_.Notify();
}

TEST_F(CompilePoolTest, AllRunsBeforeThePoolIsGone) {
  std::atomic<int> ran{0};
  std::atomic<bool> cancelled{true};
  {
    CompilePool pool(2);
    const LaunchControl control{&cancelled, absl::InfiniteFuture(), nullptr, 1};
    for (int i = 0; i < 100; ++i) {
      pool.Schedule([&ran] { ++ran; });
      pool.Schedule(control, [&ran] { ++ran; });
    }
  }
  EXPECT_EQ(ran, 200);
  release_.Notify();
}

}  // namespace
}  // namespace kiln::server
