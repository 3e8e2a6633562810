#include "server/engine/programs/row_times.h"

#include <gtest/gtest.h>

namespace kiln::server {
namespace {

TEST(RowTimesTest, NothingIsExpectedBeforeARun) { EXPECT_FALSE(RowTimes().Expected(1).has_value()); }

TEST(RowTimesTest, OfOneSizeMoreRowsTakeTheirMultipleAndFewerNoLess) {
  RowTimes times;
  for (int i = 0; i < 5; ++i) times.Observe(4, 1000);
  EXPECT_EQ(times.Expected(4), 1000u);
  EXPECT_EQ(times.Expected(8), 2000u);
  EXPECT_EQ(times.Expected(1), 1000u);
}

TEST(RowTimesTest, TheLineIsFound) {
  RowTimes times;
  for (int rows : {1, 8, 3, 16, 2, 5}) times.Observe(rows, 20'000 + 700 * static_cast<uint64_t>(rows));
  EXPECT_NEAR(static_cast<double>(*times.Expected(1)), 20'700, 10);
  EXPECT_NEAR(static_cast<double>(*times.Expected(64)), 64'800, 50);
}

TEST(RowTimesTest, WhatWasLongAgoCountsForLittle) {
  RowTimes times;
  for (int i = 0; i < 50; ++i) times.Observe(1 + i % 2, 1'000'000);
  for (int i = 0; i < 400; ++i) times.Observe(1 + i % 2, 1000);
  EXPECT_NEAR(static_cast<double>(*times.Expected(2)), 1000, 20);
}

TEST(RowTimesTest, AnyNumberOfRowsHasATime) {
  RowTimes times;
  for (int rows : {1, 2, 3}) times.Observe(rows, 1'000'000 * static_cast<uint64_t>(rows));
  EXPECT_EQ(times.Expected(int64_t{1} << 62), 1'000'000'000'000'000'000u);
}

// A slope below zero is noise.
TEST(RowTimesTest, MoreRowsAreNeverExpectedToTakeLess) {
  RowTimes times;
  times.Observe(1, 5000);
  times.Observe(100, 1000);
  EXPECT_EQ(times.Expected(1), times.Expected(1000));
}

}  // namespace
}  // namespace kiln::server
