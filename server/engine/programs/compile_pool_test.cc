#include "server/engine/programs/compile_pool.h"

#include <atomic>
#include <string>

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
