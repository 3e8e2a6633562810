#include "server/process/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>

namespace kiln::server {
namespace {

TEST(WatchdogTest, GivesUpOnceTheTimeHasPassed) {
  absl::Notification gave_up;
  const Watchdog watchdog(absl::Milliseconds(1), [&gave_up] { gave_up.Notify(); });
  gave_up.WaitForNotification();
}

TEST(WatchdogTest, WhatEndsInTimeIsLeftAlone) {
  std::atomic<bool> gave_up{false};
  {
    const Watchdog watchdog(absl::InfiniteDuration(), [&gave_up] { gave_up = true; });
  }
  EXPECT_FALSE(gave_up);
}

}  // namespace
}  // namespace kiln::server
