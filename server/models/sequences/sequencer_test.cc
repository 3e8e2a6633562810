// Steps of sequences that go well: what each goes on from, and which of them run together.
#include "server/models/sequences/sequencer.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/models/sequences/sequencer_fixture.h"

namespace kiln::server {
namespace {

class SequencerTest : public testing::Test, protected SequencerFixture {};

TEST_F(SequencerTest, EachSequenceGoesOnFromItsOwnState) {
  Open();
  const auto step = [&](const std::string& id, int32_t x, bool start = false) {
    Asked& asked = Ask(id, x, start);
    EXPECT_EQ(End(), 1u);
    return asked.text();
  };
  EXPECT_EQ(step("1", 1, true), "1");
  EXPECT_EQ(step("2", 10, true), "10");
  EXPECT_EQ(step("1", 2), "3");
  EXPECT_EQ(step("2", 20), "30");
  EXPECT_EQ(step("1", 3), "6");
  EXPECT_EQ(step("1", 5, true), "5");  // anew
  EXPECT_EQ(step("2", 1), "31");
  EXPECT_EQ(step("1", 1), "6");
}

TEST_F(SequencerTest, StepsThatComeMeanwhileAreOneRun) {
  Open();
  Asked& a = Ask("1", 1, true);
  Asked& b = Ask("2", 10, true);
  Asked& c = Ask("3", 100, true, true);
  EXPECT_EQ(runs(), 1u);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(a.text(), "1");
  Asked& d = Ask("1", 2);
  EXPECT_EQ(End(), 2u);  // b and c, which came while a ran
  EXPECT_EQ(b.text(), "10");
  EXPECT_EQ(c.text(), "100");
  EXPECT_EQ(b.result->batch, 2);
  EXPECT_EQ(c.result->batch, 0);
  Asked& e = Ask("2", 20);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(d.text(), "3");
  EXPECT_EQ(e.text(), "30");
  EXPECT_EQ(sequencer_->sequences(), 2u);
  EXPECT_EQ(metrics_.batched_requests.Sum(0), 2u);
}

TEST_F(SequencerTest, ARunHasNoMoreRowsThanItMay) {
  Open(/*sequences=*/5, /*rows=*/2);
  std::vector<Asked*> all;
  for (int i = 1; i <= 5; ++i) all.push_back(&Ask(absl::StrCat(i), i, true));
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(End(), 2u);
  for (int i = 1; i <= 5; ++i) EXPECT_EQ(all[static_cast<size_t>(i - 1)]->text(), absl::StrCat(i));
}

TEST_F(SequencerTest, ARunHasNoMoreBytesThanItMay) {
  Open(/*sequences=*/6, /*rows=*/6);
  Ask("1", 1, true);
  result_bytes_ = 7 << 20;
  Ask("2", 2, true);
  Ask("3", 3, true);
  Asked& d = Ask("4", 4, true);
  result_bytes_ = 17 << 20;
  Asked& e = Ask("5", 5, true);
  result_bytes_ = 1;
  Asked& f = Ask("6", 6, true);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(End(), 3u);  // what comes later and is small goes along
  EXPECT_EQ(f.text(), "6");
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(d.text(), "4");
  EXPECT_EQ(End(), 1u);  // more than any run of several has
  EXPECT_EQ(e.text(), "5");
}

TEST_F(SequencerTest, ARunTakesNoLongerThanItMay) {
  Open(/*sequences=*/9, /*rows=*/9);
  const auto run_of_all = [this](bool start) {
    for (int i = 1; i <= 9; ++i) Ask(absl::StrCat(i), i, start);
    std::vector<size_t> rows;
    while (runs() > 0) rows.push_back(End());
    return rows;
  };
  micros_of_row_ = 6000;  // three rows take 18 ms
  EXPECT_EQ(run_of_all(true), (std::vector<size_t>{1, 3, 3, 2}));
  micros_ = 50'000, micros_of_row_ = 0;  // long, and no longer with more rows
  std::vector<size_t> rows;
  for (int i = 0; i < 20; ++i) rows = run_of_all(false);
  EXPECT_EQ(rows, (std::vector<size_t>{1, 8}));
}

TEST_F(SequencerTest, StepsOfOtherSizesAreOtherRuns) {
  Open();
  Ask("1", 1, true);
  Asked& b = Ask("2", 2, true, false, {}, /*tokens=*/8);
  Asked& c = Ask("3", 3, true);
  EXPECT_EQ(End(), 1u);
  Asked& d = Ask("1", 10);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(b.text(), "2");
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(c.text(), "3");
  EXPECT_EQ(d.text(), "11");
}

TEST_F(SequencerTest, LongStepsSayNothingOfShortOnes) {
  Open(/*sequences=*/4, /*rows=*/4);
  micros_ = 12'000;
  for (int i = 0; i < 3; ++i) {
    Ask("1", 1, i == 0, false, {}, /*tokens=*/8);
    End();
  }
  micros_ = 100;
  Ask("1", 1);
  End();
  Ask("1", 1, false, false, {}, /*tokens=*/8);
  for (const char* id : {"2", "3", "4"}) Ask(id, 1, true);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(End(), 3u);
}

TEST_F(SequencerTest, WhatTakesLongIsKnownOfTheSizesThatCameLast) {
  StepTimes times;
  times.Observe({0}, 1, 100);
  times.Observe({1}, 1, 101);
  for (int64_t size = 2; size <= static_cast<int64_t>(StepTimes::kMaxSizes); ++size) {
    times.Observe({0}, 1, 100);
    times.Observe({size}, 1, 200);
  }
  EXPECT_EQ(times.Expected({0}, 2), 200u);
  EXPECT_EQ(times.Expected({1}, 1), std::nullopt);
  EXPECT_EQ(times.Expected({2}, 1), 200u);
}

TEST_F(SequencerTest, ARunIsMadeOfTheStepsInFront) {
  Open(/*sequences=*/10, /*rows=*/2);
  const auto rows_of = [this](size_t between) {
    Ask("0", 1, true);
    End();
    Ask("0", 1, true, false, {}, /*tokens=*/7);
    Ask("1", 1, true);
    for (size_t i = 0; i < between; ++i) Ask(absl::StrCat(2 + i), 1, true, false, {}, /*tokens=*/8);
    Ask("9", 1, true);
    End();
    const size_t rows = End();
    while (runs() > 0) End();
    return rows;
  };
  EXPECT_EQ(rows_of(6), 2u);  // the eighth
  EXPECT_EQ(rows_of(7), 1u);
}

TEST_F(SequencerTest, WhatIsNotThereIsRefused) {
  Open(/*sequences=*/2, /*rows=*/2);
  EXPECT_EQ(Ask("1", 1).text(), "UNKNOWN_HANDLE");
  Ask("1", 1, true);
  const auto busy = DetailOf(Ask("1", 1).result.status());  // under way
  EXPECT_EQ(busy->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(busy->limit(), "requests of a sequence");
  EXPECT_EQ(busy->field(), "parameters.sequence_id");
  EXPECT_GT(busy->retry_after_ms(), 0u);
  Ask("2", 1, true);
  Asked& many = Ask("3", 1, true);
  const auto detail = DetailOf(many.result.status());
  EXPECT_EQ(detail->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(detail->limit(), "sequences");
  EXPECT_EQ(detail->limit_value(), 2u);
  EXPECT_EQ(detail->field(), "parameters.sequence_start");
  EXPECT_GT(detail->retry_after_ms(), 0u);
  End();
  End();
  Ask("1", 1, false, true);
  End();
  EXPECT_EQ(Ask("1", 1).text(), "UNKNOWN_HANDLE");  // it has ended
  Ask("3", 1, true);
  EXPECT_EQ(End(), 1u);
}

TEST_F(SequencerTest, ARunWaitsForThoseOfTheRunBefore) {
  Open(3, 3, absl::Hours(1), /*queue_delay=*/absl::Hours(1));
  Ask("1", 1, true);
  Ask("2", 2, true);
  End();
  EXPECT_EQ(runs(), 0u);  // "2" waits for "1", which has just been answered
  Asked& b = Ask("1", 10);
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(b.text(), "11");
  Ask("2", 20, false, true);
  EXPECT_EQ(runs(), 0u);
  Ask("1", 100);
  EXPECT_EQ(End(), 2u);
  Ask("1", 1000);  // the other has ended, and who is alone waits for nothing
  EXPECT_EQ(End(), 1u);
}

TEST_F(SequencerTest, ARunWaitsNoLongerThanItMay) {
  Open(3, 3, absl::Hours(1), /*queue_delay=*/absl::Milliseconds(5));
  Ask("1", 1, true);
  Asked& b = Ask("2", 2, true);
  End();
  WaitForRun();
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(b.text(), "2");
}

}  // namespace
}  // namespace kiln::server
