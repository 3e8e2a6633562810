#include "client/load/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/load/plot.h"

namespace kiln::load {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A hundred answers of 1 to 100 us, and two refusals.
StepResult Sample(double rate) {
  StepResult result;
  result.rate = rate;
  result.step.seed = 7;
  ClassResult& each = result.classes.emplace_back();
  each.name = "tiny";
  each.rate = rate;
  each.seconds = 10;
  each.due = 102;
  each.sent = 101;
  each.held_back = 1;
  each.ok = 100;
  each.in_deadline = 90;
  for (uint64_t i = 1; i <= 100; ++i) each.answered.Add(1000 * i);
  each.failed.Add(7'000'000);
  each.failed.Add(7'000'000);
  each.failures["RESOURCE_EXHAUSTED QUOTA_EXCEEDED"] = {1, "too many"};
  each.failures[kNotSent] = {1, "held"};
  return result;
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Report, TextHasEveryFigureAndEveryKindOfFailure) {
  const std::string text = StepText(Sample(10.2));
  EXPECT_THAT(text, HasSubstr("10.2 requests/s for 10s, after 1s; seed 7\n"));
  for (const char* part :
       {"goodput/s", "p99.9", "  failed", " 100 ", "tiny: 1 RESOURCE_EXHAUSTED QUOTA_EXCEEDED: too many\n",
        "tiny: 1 NOT_SENT: held\n", "50.17 us", "7 ms"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  StepResult clean = Sample(10);
  clean.classes[0].failures.clear();
  EXPECT_THAT(StepText(clean), Not(HasSubstr("failed")));
}

TEST(Report, TheCurveHasARowAStep) {
  EXPECT_EQ(CurveText({Sample(10)}), "");
  const std::string text = CurveText({Sample(10), Sample(20)});
  EXPECT_EQ(Count(text, "\n"), 3u) << text;
  EXPECT_THAT(text, HasSubstr("90.0 %"));
  EXPECT_THAT(text, HasSubstr("45.0 %"));
}

TEST(Report, JsonAddsUp) {
  const auto json = nlohmann::json::parse(ToJson({Sample(10)}));
  const auto& step = json["steps"][0];
  EXPECT_EQ(step["seed"], 7);
  EXPECT_EQ(step["goodput"], 9.0);
  const auto& tiny = step["classes"][0];
  EXPECT_EQ(tiny["due"], 102);
  EXPECT_EQ(tiny["ok"].get<int>() + tiny["failed_us"]["count"].get<int>(), tiny["due"].get<int>());
  EXPECT_EQ(tiny["failures"][kNotSent]["count"], 1);
  EXPECT_EQ(tiny["answered_us"]["max"], 100.0);
  EXPECT_NEAR(tiny["answered_us"]["p50"].get<double>(), 50, 50.0 / 128);
  int counted = 0;
  double last = 0;
  for (const auto& bucket : tiny["answered_us"]["buckets"]) {
    EXPECT_GT(bucket[0].get<double>(), last);
    last = bucket[0];
    counted += bucket[1].get<int>();
  }
  EXPECT_EQ(counted, 100);
}

TEST(Report, PictureHasALineAClassAndTheGoodputOfSeveralSteps) {
  const std::string one = PlotSvg({Sample(10)});
  EXPECT_EQ(Count(one, "stroke-width"), 1u);
  EXPECT_THAT(one, HasSubstr("Latency by percentile, at 10 requests/s"));
  EXPECT_THAT(one, HasSubstr(">tiny</text>"));
  EXPECT_THAT(one, HasSubstr(">50 %</text>"));
  EXPECT_THAT(one, HasSubstr(">99 %</text>"));
  EXPECT_THAT(one, Not(HasSubstr("nan")));
  const std::string two = PlotSvg({Sample(10), Sample(20)});
  EXPECT_EQ(Count(two, "stroke-width"), 4u);
  EXPECT_THAT(two, HasSubstr("Goodput against what was offered"));
  EXPECT_THAT(two, Not(HasSubstr("nan")));
}

TEST(Report, OfNothing) {
  StepResult empty;
  empty.rate = 1;
  empty.classes.emplace_back().name = "idle";
  EXPECT_THAT(StepText(empty), HasSubstr("idle"));
  EXPECT_THAT(PlotSvg({empty}), Not(HasSubstr("nan")));
  EXPECT_EQ(nlohmann::json::parse(ToJson({empty}))["steps"][0]["goodput"], 0.0);
}

}  // namespace
}  // namespace kiln::load
