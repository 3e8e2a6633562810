#include "runtime/exec/estimate.h"

#include <gtest/gtest.h>

namespace kiln::runtime {
namespace {

void RunOften(Estimate& estimate, uint64_t ns) {
  for (int i = 0; i < 150; ++i) estimate.Observe(ns);
}

TEST(Estimate, FollowsTheRuns) {
  Estimate estimate(1'000'000);
  EXPECT_EQ(estimate.ns(), 1'000'000u);
  RunOften(estimate, 500);
  EXPECT_LT(estimate.ns(), 600u);
  EXPECT_GT(estimate.ns(), 400u);
  EXPECT_EQ(estimate.runs(), 150u);
}

TEST(Estimate, ASingleSlowRunIsNoRule) {
  Estimate estimate(1000);
  RunOften(estimate, 1000);
  estimate.Observe(1'000'000'000);
  EXPECT_LT(estimate.ns(), 2'000u);
}

// Of a program whose runs may be long, cheap ones teach nothing.
TEST(Estimate, DoesNotFallBelowItsFloor) {
  Estimate estimate(1'000'000, 900'000);
  RunOften(estimate, 500);
  EXPECT_EQ(estimate.ns(), 900'000u);
  RunOften(estimate, 2'000'000);
  EXPECT_GT(estimate.ns(), 1'900'000u);
}

}  // namespace
}  // namespace kiln::runtime
