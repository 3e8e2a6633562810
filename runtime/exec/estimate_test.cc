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

TEST(Estimate, ItIsAGuessUntilARunThatWasNotTheFirst) {
  Estimate estimate(1000);
  EXPECT_TRUE(estimate.guessed());
  estimate.Observe(5000);
  EXPECT_TRUE(estimate.guessed());
  EXPECT_EQ(estimate.expected_ns(), 1000u);
  estimate.Observe(2000);
  EXPECT_FALSE(estimate.guessed());
  EXPECT_EQ(estimate.expected_ns(), 1250u);
  EXPECT_EQ(estimate.spread_ns(), 0u) << "how far a guess was from a run is no spread";
}

TEST(Estimate, WhatWasStoppedTookAtLeastSoLong) {
  Estimate estimate(1000);
  RunOften(estimate, 1000);
  estimate.ObserveStopped(400);
  EXPECT_EQ(estimate.expected_ns(), 1000u);
  for (int i = 0; i < 50; ++i) estimate.ObserveStopped(8000);
  EXPECT_GT(estimate.expected_ns(), 7900u);
  EXPECT_EQ(estimate.runs(), 150u);
  Estimate never(1000);
  never.ObserveStopped(2000);
  EXPECT_FALSE(never.guessed());
  EXPECT_EQ(never.runs(), 0u);
}

TEST(Estimate, FromFarTooHighItFallsInAFewRuns) {
  Estimate estimate(0);
  RunOften(estimate, 1'000'000);
  for (int i = 0; i < 7; ++i) estimate.Observe(1000);
  EXPECT_LT(estimate.expected_ns(), 10'000u);
}

TEST(Estimate, TheSpreadIsHowFarRunsAreFromIt) {
  Estimate estimate(1000);
  RunOften(estimate, 1000);
  EXPECT_EQ(estimate.spread_ns(), 0u);
  for (int i = 0; i < 100; ++i) estimate.Observe(i % 2 == 0 ? 800 : 1200);
  EXPECT_NEAR(estimate.expected_ns(), 1000, 60);
  EXPECT_NEAR(estimate.spread_ns(), 200, 60);
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
