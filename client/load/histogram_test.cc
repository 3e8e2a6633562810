#include "client/load/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace kiln::load {
namespace {

TEST(Histogram, OfNothing) {
  const Histogram none;
  EXPECT_EQ(none.count(), 0u);
  EXPECT_EQ(none.Quantile(0.5), 0u);
  EXPECT_EQ(none.max(), 0u);
  EXPECT_EQ(none.mean(), 0);
  none.ForEach([](uint64_t, uint64_t) { ADD_FAILURE(); });
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (uint64_t value = 1; value <= 100; ++value) histogram.Add(value);
  EXPECT_EQ(histogram.Quantile(0), 1u);
  EXPECT_EQ(histogram.Quantile(0.01), 1u);
  EXPECT_EQ(histogram.Quantile(0.5), 50u);
  EXPECT_EQ(histogram.Quantile(0.99), 99u);
  EXPECT_EQ(histogram.Quantile(0.991), 100u);
  EXPECT_EQ(histogram.Quantile(1), 100u);
  EXPECT_EQ(histogram.mean(), 50.5);
}

// Every power of two, and what lies beside it.
TEST(Histogram, NoBucketIsWiderThanAHundredAndTwentyEighth) {
  for (int bit = 0; bit < 64; ++bit) {
    for (const int64_t beside : {-1, 0, 1}) {
      const uint64_t value = (uint64_t{1} << bit) + static_cast<uint64_t>(beside);
      Histogram histogram;
      histogram.Add(value);
      histogram.Add(~uint64_t{0});  // so that the greatest does not hide the bucket's end
      const uint64_t read = histogram.Quantile(0.5);
      EXPECT_GE(read, value);
      EXPECT_LE(read - value, value / 128) << value;
    }
  }
}

TEST(Histogram, QuantilesAreThoseOfTheSortedValuesRoundedUp) {
  std::mt19937_64 random(7);
  std::lognormal_distribution<double> distribution(12, 3);  // from nanoseconds to minutes
  std::vector<uint64_t> values;
  Histogram histogram;
  for (int i = 0; i < 100'000; ++i) {
    values.push_back(static_cast<uint64_t>(distribution(random)));
    histogram.Add(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double part : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<size_t>(std::ceil(part * static_cast<double>(values.size())));
    const uint64_t exact = values[rank - 1], read = histogram.Quantile(part);
    EXPECT_GE(read, exact) << part;
    EXPECT_LE(read, exact + exact / 128) << part;
  }
  EXPECT_EQ(histogram.max(), values.back());
}

TEST(Histogram, MergedIsAsIfAllHadBeenAddedToOne) {
  Histogram few, many, all;
  for (uint64_t value = 0; value < 1000; ++value) {
    (value % 3 == 0 ? few : many).Add(value * value, value % 5);
    all.Add(value * value, value % 5);
  }
  many.Merge(few);
  EXPECT_EQ(many.count(), all.count());
  EXPECT_EQ(many.max(), all.max());
  EXPECT_EQ(many.mean(), all.mean());
  for (const double part : {0.1, 0.5, 0.99, 1.0}) EXPECT_EQ(many.Quantile(part), all.Quantile(part));
}

TEST(Histogram, BucketsComeInOrderAndAddUp) {
  Histogram histogram;
  histogram.Add(1'000'000, 3);
  histogram.Add(5, 2);
  std::vector<std::pair<uint64_t, uint64_t>> seen;
  histogram.ForEach([&](uint64_t end, uint64_t count) { seen.emplace_back(end, count); });
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0], std::make_pair(uint64_t{5}, uint64_t{2}));
  EXPECT_EQ(seen[1], std::make_pair(uint64_t{1'000'000}, uint64_t{3}));
}

}  // namespace
}  // namespace kiln::load
