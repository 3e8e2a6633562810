// That neither follows the system's clock, tests/chaos/clock_test.py tests: it sets that of a server.
#include "base/clock.h"

#include <gtest/gtest.h>

#include <thread>

#include "absl/time/clock.h"

namespace kiln {
namespace {

TEST(SteadyNow, BeginsWithTheSystemsTimeAndGoesOn) {
  const absl::Time first = SteadyNow();
  EXPECT_LT(absl::AbsDuration(first - absl::Now()), absl::Minutes(1));
  absl::Time last = first;
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = SteadyNow();
    ASSERT_GE(now, last);
    last = now;
  }
  while (SteadyNow() == first) {
  }
}

TEST(Bell, AWaitEndsByItself) {
  Bell bell;
  const absl::Time begin = SteadyNow();
  EXPECT_FALSE(bell.Wait(absl::Milliseconds(5)));
  EXPECT_GE(SteadyNow() - begin, absl::Milliseconds(5));
  EXPECT_FALSE(bell.Wait(absl::ZeroDuration()));
  EXPECT_FALSE(bell.Wait(-absl::InfiniteDuration()));
}

TEST(Bell, WhatRangBeforeEndsTheNextWaitAndNoOther) {
  Bell bell;
  bell.Ring();
  bell.Ring();
  EXPECT_TRUE(bell.Wait(absl::InfiniteDuration()));
  EXPECT_FALSE(bell.Wait(absl::ZeroDuration()));
}

TEST(Bell, EndsAWaitWithoutAnEnd) {
  Bell bell;
  std::thread waits([&bell] { EXPECT_TRUE(bell.Wait(absl::InfiniteDuration())); });
  bell.Ring();
  waits.join();
}

}  // namespace
}  // namespace kiln
