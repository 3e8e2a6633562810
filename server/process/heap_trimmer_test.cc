#include "server/process/heap_trimmer.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

constexpr size_t kMiB = 1 << 20;

TEST(TrimRuleTest, WhatStaysFreeIsGivenBackOnce) {
  TrimRule rule;
  EXPECT_FALSE(rule.Due(10 * kMiB));
  EXPECT_FALSE(rule.Due(300 * kMiB));  // it may be used again
  EXPECT_TRUE(rule.Due(290 * kMiB));
  EXPECT_FALSE(rule.Due(290 * kMiB));  // called free still
  EXPECT_FALSE(rule.Due(290 * kMiB));
}

TEST(TrimRuleTest, WhatIsUsedAgainAtOnceIsKept) {
  TrimRule rule;
  for (int i = 0; i < 10; ++i) {
    EXPECT_FALSE(rule.Due(10 * kMiB));
    EXPECT_FALSE(rule.Due(200 * kMiB));
  }
}

TEST(TrimRuleTest, LittleIsNotWorthIt) {
  TrimRule rule;
  EXPECT_FALSE(rule.Due(0));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(rule.Due(63 * kMiB));
}

TEST(TrimRuleTest, WhatWasGivenBackAndTakenAgainCountsWhenItIsFreeAgain) {
  TrimRule rule;
  EXPECT_FALSE(rule.Due(0));
  EXPECT_FALSE(rule.Due(100 * kMiB));
  EXPECT_TRUE(rule.Due(100 * kMiB));
  EXPECT_FALSE(rule.Due(20 * kMiB));
  EXPECT_FALSE(rule.Due(100 * kMiB));
  EXPECT_TRUE(rule.Due(100 * kMiB));
}

TEST(HeapTrimmerTest, EndsAtOnce) { const HeapTrimmer trimmer; }

}  // namespace
}  // namespace kiln::server
