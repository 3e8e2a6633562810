#include "client/load/arrivals.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace kiln::load {
namespace {

std::vector<uint64_t> Take(Arrivals arrivals, int count) {
  std::vector<uint64_t> due;
  for (int i = 0; i < count; ++i, arrivals.Advance()) due.push_back(arrivals.due_ns());
  return due;
}

TEST(Arrivals, OneSeedGivesOneSchedule) {
  for (const Spacing spacing : {Spacing::kPoisson, Spacing::kConstant}) {
    const auto first = Take(Arrivals(1000, spacing, 5), 1000);
    EXPECT_EQ(first, Take(Arrivals(1000, spacing, 5), 1000));
    EXPECT_NE(first, Take(Arrivals(1000, spacing, 6), 1000));
  }
}

TEST(Arrivals, ConstantOnesNeverDrift) {
  const auto due = Take(Arrivals(3, Spacing::kConstant, 1), 3'000'001);  // a third of a second has no exact form
  EXPECT_LE(due.front(), 333'333'333u);
  EXPECT_NEAR(static_cast<double>(due.back() - due.front()), 1e15, 1);
  for (size_t i = 1; i < 100; ++i) EXPECT_NEAR(static_cast<double>(due[i] - due[i - 1]), 1e9 / 3, 1);
}

TEST(Arrivals, RandomOnesAreExponential) {
  constexpr int kCount = 200'000;
  const auto due = Take(Arrivals(1000, Spacing::kPoisson, 3), kCount);
  double sum = 0, squares = 0;
  int longer_than_mean = 0;
  for (int i = 1; i < kCount; ++i) {
    ASSERT_GE(due[i], due[i - 1]);
    const double gap = static_cast<double>(due[i] - due[i - 1]) / 1e6;  // in means
    sum += gap;
    squares += gap * gap;
    longer_than_mean += gap > 1;
  }
  const double mean = sum / (kCount - 1);
  EXPECT_NEAR(mean, 1, 0.01);
  EXPECT_NEAR(squares / (kCount - 1) - mean * mean, 1, 0.03);  // an exponential's variance
  EXPECT_NEAR(longer_than_mean / (kCount - 1.0), std::exp(-1), 0.01);
}

}  // namespace
}  // namespace kiln::load
