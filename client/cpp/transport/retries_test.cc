#include "client/cpp/transport/retries.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"

namespace kiln::client {
namespace {

const absl::Time kNow = absl::UnixEpoch();

absl::Status Failure(v1::ErrorCode code, uint32_t retry_after_ms) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_retry_after_ms(retry_after_ms);
  return MakeError(detail, "no");
}

std::optional<absl::Duration> Wait(Retries& retries, const char* name, const absl::Status& failure, int attempt = 1,
                                   absl::Time deadline = absl::InfiniteFuture()) {
  return retries.WaitBeforeNext(name, failure, attempt, kNow, deadline);
}

TEST(Retries, ARefusalWithATimeIsWaitedForALittleLonger) {
  Retries retries({.most_budget = 1000}, 1);
  std::set<absl::Duration> waits;
  for (int i = 0; i < 100; ++i) {
    const auto wait = Wait(retries, "Execute", Failure(v1::QUOTA_EXCEEDED, 100));
    ASSERT_TRUE(wait.has_value());
    EXPECT_GE(*wait, absl::Milliseconds(100));
    EXPECT_LE(*wait, absl::Milliseconds(150));
    waits.insert(*wait);
  }
  EXPECT_GT(waits.size(), 90u);  // or all clients would come back at once
  EXPECT_GT(*waits.rbegin() - *waits.begin(), absl::Milliseconds(30));
}

TEST(Retries, WhatWaitingDoesNotHelpIsToldAtOnce) {
  Retries retries({}, 1);
  EXPECT_FALSE(Wait(retries, "Execute", Failure(v1::QUOTA_EXCEEDED, 0)));
  EXPECT_FALSE(Wait(retries, "Execute", Failure(v1::QUOTA_EXCEEDED, 60'000)));
  EXPECT_FALSE(Wait(retries, "Compile", Failure(v1::COMPILER_FAULT, 100)));
  EXPECT_FALSE(Wait(retries, "Execute", Failure(v1::EXECUTOR_LOST, 100)));
  EXPECT_FALSE(Wait(retries, "Compile", Failure(v1::DEADLINE_PASSED, 0)));
  EXPECT_FALSE(Wait(retries, "Compile", absl::InternalError("no")));
}

TEST(Retries, WhatMayHaveHadAnEffectIsNotDoneAgain) {
  Retries retries({}, 1);
  const absl::Status lost = absl::UnavailableError("the connection was lost");
  EXPECT_FALSE(Wait(retries, "Execute", lost));
  EXPECT_FALSE(Wait(retries, "Allocate", lost));
  EXPECT_FALSE(Wait(retries, "Free", lost));
  EXPECT_TRUE(Wait(retries, "Compile", lost));
  EXPECT_TRUE(Wait(retries, "Usage", lost));
  // A server that stops says that it did not begin; one that misses a participant has.
  EXPECT_TRUE(Wait(retries, "Execute", Failure(v1::SHUTTING_DOWN, 0)));
  EXPECT_FALSE(Wait(retries, "Execute", Failure(v1::PARTICIPANT_MISSING, 0)));
}

TEST(Retries, WithoutATimeTheWaitDoublesAndIsAnythingBelow) {
  Retries retries({.attempts = 100, .most_budget = 10'000}, 1);
  const absl::Status lost = absl::UnavailableError("no");
  for (const auto& [attempt, most_ms] : {std::pair(1, 50), std::pair(2, 100), std::pair(3, 200), std::pair(50, 2000)}) {
    absl::Duration least = absl::InfiniteDuration(), most;
    for (int i = 0; i < 500; ++i) {
      const auto wait = Wait(retries, "List", lost, attempt);
      ASSERT_TRUE(wait.has_value());
      least = std::min(least, *wait);
      most = std::max(most, *wait);
    }
    EXPECT_LE(most, absl::Milliseconds(most_ms));
    EXPECT_GE(most, absl::Milliseconds(most_ms) * 0.9);
    EXPECT_LE(least, absl::Milliseconds(most_ms) * 0.1);
  }
}

TEST(Retries, AttemptsEnd) {
  Retries retries({.attempts = 3}, 1);
  const absl::Status refused = Failure(v1::OUT_OF_MEMORY, 10);
  EXPECT_TRUE(Wait(retries, "Execute", refused, 1));
  EXPECT_TRUE(Wait(retries, "Execute", refused, 2));
  EXPECT_FALSE(Wait(retries, "Execute", refused, 3));
  Retries never({.attempts = 1}, 1);
  EXPECT_FALSE(Wait(never, "Execute", refused, 1));
}

TEST(Retries, NothingIsBegunAfterTheDeadline) {
  Retries retries({}, 1);
  const absl::Status refused = Failure(v1::QUOTA_EXCEEDED, 100);
  EXPECT_FALSE(Wait(retries, "Execute", refused, 1, kNow + absl::Milliseconds(90)));
  EXPECT_TRUE(Wait(retries, "Execute", refused, 1, kNow + absl::Milliseconds(200)));
}

TEST(Retries, OfManyCallsThatFailATenthIsMadeAgain) {
  Retries retries({}, 1);
  const absl::Status refused = Failure(v1::QUOTA_EXCEEDED, 10);
  int again = 0;
  for (int i = 0; i < 10'000; ++i) {
    retries.Earn();
    again += Wait(retries, "Execute", refused).has_value();
  }
  EXPECT_NEAR(again, 1010, 2);
  // And what was not used is not saved up for ever.
  for (int i = 0; i < 10'000; ++i) retries.Earn();
  again = 0;
  while (Wait(retries, "Execute", refused)) ++again;
  EXPECT_EQ(again, 10);
}

}  // namespace
}  // namespace kiln::client
