#include "runtime/hal/core_time.h"

#include <thread>

#include "absl/time/clock.h"
#include "base/clock.h"
#include "gtest/gtest.h"

namespace kiln::runtime::hal {
namespace {

constexpr absl::Duration kSome = absl::Milliseconds(20);

void Work(absl::Duration time) {
  for (const int64_t begin = CoreTime::ThreadNs(); absl::Nanoseconds(CoreTime::ThreadNs() - begin) < time;) {
  }
}

TEST(CoreTime, StandingStillIsKeptAndNotHad) {
  CoreTime time;
  EXPECT_LT(time.SoFar(), absl::ZeroDuration());
  const absl::Time begin = SteadyNow();
  time.Begin();
  EXPECT_TRUE(time.counts());
  Work(kSome);
  absl::SleepFor(kSome);
  EXPECT_GE(time.SoFar(), kSome);
  time.End();
  const absl::Duration passed = SteadyNow() - begin;
  EXPECT_FALSE(time.counts());
  EXPECT_GE(time.had(), kSome);
  EXPECT_EQ(time.SoFar(), time.had()) << "until it is counted elsewhere";
  EXPECT_GE(time.kept(), kSome - absl::Milliseconds(1));
  EXPECT_LE(time.had() + time.kept(), passed);
  time.Forget();
  EXPECT_LT(time.SoFar(), absl::ZeroDuration());
}

TEST(CoreTime, WhatHelpersHadLongerIsHad) {
  CoreTime time;
  time.Begin();
  absl::SleepFor(kSome);
  time.Helped(absl::ToInt64Nanoseconds(kSome / 2));
  time.End();
  EXPECT_GE(time.had(), kSome / 2);
  EXPECT_LT(time.had(), kSome);
  EXPECT_GE(time.kept(), kSome / 2 - absl::Milliseconds(1));
}

TEST(CoreTime, IsNoMoreThanPassed) {
  CoreTime time;
  time.Begin();
  time.Helped(absl::ToInt64Nanoseconds(absl::Hours(1)));
  time.End();
  EXPECT_LT(time.had(), absl::Hours(1));
  EXPECT_EQ(time.kept(), absl::ZeroDuration());
}

TEST(CoreTime, PiecesAddUp) {
  CoreTime time;
  for (int i = 1; i <= 3; ++i) {
    time.Begin();
    absl::SleepFor(kSome);
    time.End();
    EXPECT_LT(time.had(), kSome) << "of the last piece alone";
    EXPECT_GE(time.kept(), i * (kSome - absl::Milliseconds(1)));
  }
  time.End();  // nothing has begun
  EXPECT_LE(time.kept(), absl::Hours(1));
}

TEST(CoreTime, OtherThreadsSeeWhatItHas) {
  CoreTime time;
  time.Begin();
  Work(kSome);
  absl::Duration seen;
  std::thread([&] { seen = time.SoFar(); }).join();
  EXPECT_GE(seen, kSome);
  time.End();
  EXPECT_LE(seen, time.had());
}

}  // namespace
}  // namespace kiln::runtime::hal
