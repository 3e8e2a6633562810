#include "server/state/share_history.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace kiln::server {
namespace {

constexpr uint64_t kMilli = 1'000'000;
const absl::Time kBegin = absl::FromUnixSeconds(1'000);

// Of one device.
std::vector<std::vector<uint64_t>> Of(std::vector<uint64_t> by_payer) { return {std::move(by_payer)}; }

TEST(ShareHistory, BeforeTwoSamplesThereIsNothing) {
  ShareHistory history(1);
  EXPECT_EQ(history.Over(0, 1).seconds, 0);
  history.Add(kBegin, Of({5 * kMilli}));
  EXPECT_EQ(history.Over(0, 1).seconds, 0);
  EXPECT_EQ(history.Over(0, 1).all, 0);
  EXPECT_TRUE(history.PartsOf(0, 0, 10).empty());
}

TEST(ShareHistory, WhatWasUsedIsTheDifference) {
  ShareHistory history(2);
  history.Add(kBegin, {{100 * kMilli}, {}});
  history.Add(kBegin + absl::Seconds(1), {{350 * kMilli, 750 * kMilli}, {}});
  history.Add(kBegin + absl::Seconds(2), {{350 * kMilli, 1'250 * kMilli}, {0, 0, 1'000 * kMilli}});
  const ShareHistory::Used last = history.Over(0, 1), both = history.Over(0, 60);
  EXPECT_DOUBLE_EQ(last.seconds, 1);
  EXPECT_DOUBLE_EQ(last.all, 0.5);
  EXPECT_DOUBLE_EQ(last.by_payer.at(1), 0.5);
  EXPECT_DOUBLE_EQ(both.seconds, 2);
  EXPECT_DOUBLE_EQ(both.by_payer.at(0), 0.25);
  EXPECT_DOUBLE_EQ(both.by_payer.at(1), 1.25);
  EXPECT_DOUBLE_EQ(history.Over(1, 1).by_payer.at(2), 1);
  EXPECT_EQ(history.PartsOf(0, 0, 60), (std::vector<float>{0.25f, 0.0f}));
  EXPECT_EQ(history.PartsOf(0, 1, 1), (std::vector<float>{0.5f}));
  EXPECT_EQ(history.PartsOf(0, 9, 2), (std::vector<float>{0.0f, 0.0f}));
}

// Of a run that goes on, more was counted than it has taken when it has ended.
TEST(ShareHistory, ATotalThatGoesBackIsMadeUpFor) {
  ShareHistory history(1);
  history.Add(kBegin, Of({0}));
  history.Add(kBegin + absl::Seconds(1), Of({900 * kMilli}));
  history.Add(kBegin + absl::Seconds(2), Of({800 * kMilli}));
  history.Add(kBegin + absl::Seconds(3), Of({1'100 * kMilli}));
  EXPECT_EQ(history.PartsOf(0, 0, 60), (std::vector<float>{0.9f, 0.0f, 0.2f}));
  EXPECT_DOUBLE_EQ(history.Over(0, 60).all, 1.1);
}

// Many little ones are not lost, though each second has less than a microsecond of them.
TEST(ShareHistory, LessThanAMicrosecondWaits) {
  ShareHistory history(1);
  for (uint64_t i = 0; i <= 10; ++i) history.Add(kBegin + absl::Seconds(static_cast<int64_t>(i)), Of({i * 300}));
  EXPECT_DOUBLE_EQ(history.Over(0, 60).all, 3e-6);
}

TEST(ShareHistory, KeepsSoManyAndNoMore) {
  ShareHistory history(1);
  for (size_t i = 0; i < ShareHistory::kSamples + 50; ++i)
    history.Add(kBegin + absl::Seconds(static_cast<int64_t>(i)), Of({i * i * kMilli}));
  const std::vector<float> parts = history.PartsOf(0, 0, 100'000);
  ASSERT_EQ(parts.size(), ShareHistory::kSamples);
  EXPECT_FLOAT_EQ(parts.back(), (2 * (ShareHistory::kSamples + 49) - 1) / 1e3f);
  EXPECT_FLOAT_EQ(parts.front(), (2 * 50 - 1) / 1e3f);
}

TEST(ShareHistory, AClockThatIsSetBackMakesNoSecond) {
  ShareHistory history(1);
  history.Add(kBegin, Of({0}));
  history.Add(kBegin - absl::Seconds(100), Of({500 * kMilli}));
  EXPECT_EQ(history.Over(0, 1).seconds, 0);
  EXPECT_EQ(history.PartsOf(0, 0, 1), (std::vector<float>{0.0f}));
}

}  // namespace
}  // namespace kiln::server
