#include "server/fair/shares.h"

#include <gtest/gtest.h>

#include <map>

namespace kiln::server {
namespace {

constexpr int64_t kMs = 1'000'000, kSecond = 1000 * kMs;

std::map<size_t, double> RatiosOf(Shares& shares, int64_t now_ns) {
  std::map<size_t, double> ratios;
  shares.Read(now_ns, [&](size_t tenant, double ratio) { ratios[tenant] = ratio; });
  return ratios;
}

TEST(Shares, NobodyHasNone) {
  Shares shares;
  EXPECT_TRUE(RatiosOf(shares, 0).empty());
  EXPECT_TRUE(RatiosOf(shares, 1'000'000 * kSecond).empty());
  shares.Begin(2, 1, 1'000'000 * kSecond);
  EXPECT_TRUE(RatiosOf(shares, 1'000'001 * kSecond).empty()) << "it waits, and nothing has run";
}

// However much of the time the device is idle.
TEST(Shares, WhoIsAloneHasItsShare) {
  Shares shares;
  for (int64_t i = 0; i < 1000; ++i) {
    shares.Begin(2, 7, i * 10 * kMs);
    shares.End(2, 2 * kMs, i * 10 * kMs + 3 * kMs);
  }
  EXPECT_EQ(RatiosOf(shares, 10 * kSecond), (std::map<size_t, double>({{2, 1.0}})));
}

// Both always want it. Weights are 1 and 3; turns are as given, of 10 ms.
std::map<size_t, double> TwoWanting(int turns_of_light, int turns_of_heavy) {
  Shares shares;
  shares.Begin(2, 1, 0);
  shares.Begin(3, 3, 0);
  int64_t now = 0;
  while (now < 20 * kSecond) {
    for (int turn = 0; turn < turns_of_light + turns_of_heavy; ++turn) {
      const size_t tenant = turn < turns_of_light ? 2 : 3;
      now += 10 * kMs;
      shares.Begin(tenant, tenant == 2 ? 1 : 3, now);
      shares.End(tenant, 10 * kMs, now);
    }
  }
  return RatiosOf(shares, now);
}

TEST(Shares, WeightsAreEntitlements) {
  const auto fair = TwoWanting(1, 3), equal = TwoWanting(1, 1);
  EXPECT_NEAR(fair.at(2), 1, 1e-9);
  EXPECT_NEAR(fair.at(3), 1, 1e-9);
  EXPECT_NEAR(equal.at(2), 2, 1e-9) << "a half in the place of a quarter";
  EXPECT_NEAR(equal.at(3), 2.0 / 3, 1e-9);
}

// One wants it always, the other in every second half of a second, and has then all of it: in that time both are
// entitled to a half.
TEST(Shares, WhoDoesNotWantItIsEntitledToNothing) {
  Shares shares;
  shares.Begin(2, 1, 0);
  for (int64_t second = 0; second < 20; ++second) {
    const int64_t begin = second * kSecond;
    shares.End(2, 500 * kMs, begin + 500 * kMs);
    shares.Begin(2, 1, begin + 500 * kMs);
    shares.Begin(3, 1, begin + 500 * kMs);
    shares.End(3, 500 * kMs, begin + kSecond);
  }
  const auto ratios = RatiosOf(shares, 20 * kSecond);
  EXPECT_NEAR(ratios.at(2), 0.5 / 0.75, 1e-9);
  EXPECT_NEAR(ratios.at(3), 0.5 / 0.25, 1e-9);
}

TEST(Shares, WhatIsLongAgoDoesNotCount) {
  Shares shares;
  shares.Begin(2, 1, 0);
  shares.Begin(3, 1, 0);
  shares.End(2, kSecond, kSecond);
  shares.End(3, 0, kSecond);
  const int64_t window = Shares::kSlotNs * static_cast<int64_t>(Shares::kSlots);
  EXPECT_NEAR(RatiosOf(shares, kSecond).at(2), 2, 1e-9);
  EXPECT_NEAR(RatiosOf(shares, window - 2 * kSecond).at(3), 0, 1e-9);
  shares.Begin(3, 1, window - kSecond);
  shares.End(3, kSecond, window - 1);
  EXPECT_EQ(RatiosOf(shares, window), (std::map<size_t, double>({{3, 1.0}}))) << "the first slot is forgotten";
  EXPECT_TRUE(RatiosOf(shares, 100 * window).empty());
}

// One run of a minute, of which half was before the window: and another that wanted the device all the while.
TEST(Shares, ALongRunIsInAllItsSlots) {
  Shares shares;
  const int64_t begin = 1'000'000 * kSecond;
  shares.Begin(2, 1, begin);
  shares.Begin(3, 1, begin);
  shares.End(2, static_cast<uint64_t>(60 * kSecond), begin + 60 * kSecond);
  auto ratios = RatiosOf(shares, begin + 60 * kSecond);
  EXPECT_NEAR(ratios.at(2), 2, 1e-9);
  EXPECT_NEAR(ratios.at(3), 0, 1e-9);
  // Then the other has it: after 10 seconds of 30 that are looked at, 10 of the 30 were its own.
  shares.Begin(2, 1, begin + 60 * kSecond);
  shares.End(3, static_cast<uint64_t>(10 * kSecond), begin + 70 * kSecond);
  ratios = RatiosOf(shares, begin + 70 * kSecond);
  EXPECT_NEAR(ratios.at(3), 2.0 * 10 / 25, 1e-9) << "25 are in whole slots";
  EXPECT_NEAR(ratios.at(2), 2.0 * 15 / 25, 1e-9);
}

TEST(Shares, AWeightMayChangeAndAClockBeSetBack) {
  Shares shares;
  shares.Begin(2, 1, 10 * kSecond);
  shares.Begin(3, 1, 10 * kSecond);
  shares.Begin(2, 3, 11 * kSecond);  // from now on three quarters
  shares.End(2, 0, 5 * kSecond);     // no time has passed
  shares.End(3, static_cast<uint64_t>(kSecond), 12 * kSecond);
  shares.End(2, static_cast<uint64_t>(kSecond), 12 * kSecond);
  const auto ratios = RatiosOf(shares, 12 * kSecond);
  EXPECT_NEAR(ratios.at(2), 0.5 / (1.25 / 2), 1e-9);
  EXPECT_NEAR(ratios.at(3), 0.5 / (0.75 / 2), 1e-9);
}

}  // namespace
}  // namespace kiln::server
