#include "client/demo/digits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "client/demo/report.h"

namespace kiln::demo {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DigitsTest, TheDataIsAllThere) {
  const auto digits = LoadDigits("client/demo/data");
  ASSERT_TRUE(digits.ok()) << digits.status();
  EXPECT_EQ(digits->count(), 1797);
  EXPECT_EQ(digits->images.size(), 1797u * kPixels);
  EXPECT_EQ(*std::max_element(digits->images.begin(), digits->images.end()), 16);
  int counts[10] = {};
  for (const uint8_t label : digits->labels) ++counts[label];
  EXPECT_THAT(counts, ElementsAre(178, 182, 177, 183, 181, 182, 181, 179, 174, 180));
  EXPECT_EQ(LoadDigits("nowhere").status().code(), absl::StatusCode::kNotFound);
}

TEST(DigitsTest, TheSplitSharesNothingAndLosesNothing) {
  Digits digits;
  for (int i = 0; i < 100; ++i) {
    digits.images.insert(digits.images.end(), kPixels, static_cast<uint8_t>(i));
    digits.labels.push_back(static_cast<uint8_t>(i));
  }
  std::mt19937_64 random(3);
  const Split split = SplitDigits(digits, 30, random);
  EXPECT_EQ(split.held_out.count(), 30);
  EXPECT_EQ(split.train.count(), 70);
  std::set<uint8_t> all(split.train.labels.begin(), split.train.labels.end());
  all.insert(split.held_out.labels.begin(), split.held_out.labels.end());
  EXPECT_EQ(all.size(), 100u);
  for (int64_t i = 0; i < split.train.count(); ++i) EXPECT_EQ(split.train.images[i * kPixels], split.train.labels[i]);
}

TEST(DigitsTest, CopiesMoveByOnePixel) {
  Digits digits;
  digits.images.assign(kPixels, 0);
  digits.images[0] = 9;  // the upper left corner
  digits.labels = {4};
  const Digits copies = WithShiftedCopies(digits);
  ASSERT_EQ(copies.count(), 5);
  EXPECT_THAT(copies.labels, ElementsAre(4, 4, 4, 4, 4));
  const auto ink = [&](int copy, int pixel) { return static_cast<int>(copies.images[copy * kPixels + pixel]); };
  EXPECT_EQ(ink(0, 0), 9);
  EXPECT_EQ(ink(1, 1), 9);
  EXPECT_EQ(ink(1, 0), 0);
  EXPECT_EQ(ink(3, 8), 9);
  // Moved out of the picture.
  EXPECT_EQ(std::count(copies.images.begin(), copies.images.end(), 9), 3);
}

TEST(DigitsTest, AShuffleIsTheSameEverywhere) {
  std::mt19937_64 random(1);
  EXPECT_THAT(Shuffled(8, random), ElementsAre(4, 6, 3, 5, 1, 7, 2, 0));
}

TEST(ReportTest, CountsGuesses) {
  const std::vector<uint8_t> truth = {3, 3, 3, 7};
  const std::vector<int32_t> guesses = {3, 3, 5, 7};
  EXPECT_DOUBLE_EQ(Accuracy(truth, guesses), 0.75);
  EXPECT_DOUBLE_EQ(Accuracy(truth, {3}), 0);
  const std::string table = ConfusionTable(truth, guesses);
  EXPECT_THAT(table, HasSubstr("    3 |         .    .    .    2    .    1    .    .    .    . |  66.7%"));
  EXPECT_THAT(table, HasSubstr("    7 |         .    .    .    .    .    .    .    1    .    . | 100.0%"));
}

TEST(ReportTest, BytesHaveUnits) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(999), "999 B");
  EXPECT_EQ(BytesText(1234), "1.2 kB");
  EXPECT_EQ(BytesText(3.5e9), "3.5 GB");
}

}  // namespace
}  // namespace kiln::demo
