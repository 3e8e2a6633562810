#include "server/last_resort.h"

#include <gtest/gtest.h>

#include <atomic>

namespace kiln::server {
namespace {

TEST(LastResortTest, GivesUpOnceTheTimeHasPassed) {
  absl::Notification gave_up;
  const LastResort last_resort(absl::Milliseconds(1), [&gave_up] { gave_up.Notify(); });
  gave_up.WaitForNotification();
}

TEST(LastResortTest, WhatEndsInTimeIsLeftAlone) {
  std::atomic<bool> gave_up{false};
  {
    const LastResort last_resort(absl::InfiniteDuration(), [&gave_up] { gave_up = true; });
  }
  EXPECT_FALSE(gave_up);
}

}  // namespace
}  // namespace kiln::server
