#include "server/otlp/backlog.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "server/otlp/exporter.h"

namespace kiln::server {
namespace {

CallRecord Call(uint64_t number, uint32_t owner) {
  CallRecord record;
  record.trace.sampled = true;
  std::memcpy(record.trace.span_id.data(), &number, sizeof(number));
  record.owner = owner;
  return record;
}

RunOfDevice RunOf(uint64_t call, uint32_t owner, uint32_t launches = 1) {
  RunOfDevice run;
  run.call = call;
  run.owner = owner;
  run.launches = launches;
  return run;
}

uint64_t PushedOut(const Metrics& metrics) {
  return metrics.otlp_records.Sum(Series<ExportEnd>::Of(ExportEnd::kPushedOut));
}

std::vector<uint64_t> NumbersOf(const std::vector<CallRecord>& calls) {
  std::vector<uint64_t> numbers;
  for (const CallRecord& call : calls) numbers.push_back(call.trace.number());
  return numbers;
}

TEST(Backlog, GivesCallsWithTheirRuns) {
  Metrics metrics;
  Backlog backlog(&metrics);
  EXPECT_EQ(backlog.Take().records(), 0);
  backlog.OnRun(RunOf(7, 1, 3));
  backlog.OnRun(RunOf(8, 1, 4));  // whose call has not ended
  backlog.OnRun(RunOf(7, 1, 5));
  EXPECT_TRUE(backlog.Take().calls.empty());
  backlog.OnCall(Call(7, 1), nullptr);
  const Backlog::Taken first = backlog.Take();
  EXPECT_EQ(NumbersOf(first.calls), std::vector<uint64_t>({7}));
  ASSERT_EQ(first.runs.size(), 2);
  EXPECT_EQ(first.runs[0].launches, 3);
  EXPECT_EQ(first.runs[1].launches, 5);
  backlog.OnCall(Call(8, 1), nullptr);
  const Backlog::Taken second = backlog.Take();
  EXPECT_EQ(NumbersOf(second.calls), std::vector<uint64_t>({8}));
  ASSERT_EQ(second.runs.size(), 1);
  EXPECT_EQ(second.runs[0].launches, 4);
  EXPECT_EQ(PushedOut(metrics), 0);
}

// However much one makes, the other's are there, and the first's newest.
TEST(Backlog, ATenantPushesOutNoneButItsOwn) {
  Metrics metrics;
  Backlog backlog(&metrics);
  backlog.OnCall(Call(1, 2), nullptr);
  backlog.OnRun(RunOf(1, 2));
  constexpr uint64_t kMany = 3 * Backlog::kCallsOfOne, kManyRuns = 3 * Backlog::kRunsOfOne;
  for (uint64_t i = 0; i < kMany; ++i) backlog.OnCall(Call(1000 + i, 1), nullptr);
  for (uint64_t i = 0; i < kManyRuns; ++i) backlog.OnRun(RunOf(1'000'000 + i, 1));
  EXPECT_EQ(PushedOut(metrics), kMany - Backlog::kCallsOfOne + kManyRuns - Backlog::kRunsOfOne);
  std::map<uint32_t, std::vector<uint64_t>> by_owner;
  size_t runs = 0;
  for (;;) {
    const Backlog::Taken taken = backlog.Take();
    if (taken.calls.empty()) break;
    for (const CallRecord& call : taken.calls) by_owner[call.owner].push_back(call.trace.number());
    runs += taken.runs.size();
  }
  EXPECT_EQ(by_owner[2], std::vector<uint64_t>({1}));
  EXPECT_EQ(runs, 1);
  ASSERT_EQ(by_owner[1].size(), Backlog::kCallsOfOne);
  EXPECT_EQ(by_owner[1].back(), 1000 + kMany - 1);
}

TEST(Backlog, ACallThatIsPushedOutTakesItsRunsWithIt) {
  Metrics metrics;
  Backlog backlog(&metrics);
  constexpr uint64_t kMany = Backlog::kCallsOfOne + 10;
  for (uint64_t i = 1; i <= kMany; ++i) {
    backlog.OnRun(RunOf(i, 1));
    backlog.OnRun(RunOf(i, 1));
    backlog.OnCall(Call(i, 1), nullptr);
  }
  EXPECT_EQ(PushedOut(metrics), 3 * 10);
  size_t records = 0;
  for (Backlog::Taken taken = backlog.Take(); !taken.calls.empty(); taken = backlog.Take()) records += taken.records();
  EXPECT_EQ(records, 3 * Backlog::kCallsOfOne);
}

TEST(Backlog, StagesGoWithTheirCall) {
  Metrics metrics;
  Backlog backlog(&metrics);
  CompileStages stages;
  stages.Add(CompileStage::kCode, absl::FromUnixNanos(1), absl::FromUnixNanos(9));
  backlog.OnCall(Call(7, 1), &stages);
  backlog.OnCall(Call(8, 1), nullptr);
  const Backlog::Taken taken = backlog.Take();
  EXPECT_EQ(NumbersOf(taken.calls), std::vector<uint64_t>({7, 8}));
  ASSERT_EQ(taken.stages.size(), 1);
  EXPECT_EQ(taken.stages.at(7).all()[0].time.end_ns, 9);
  EXPECT_EQ(taken.records(), 2) << "they are of their call's record";
  // What is pushed out leaves none behind.
  for (uint64_t i = 1; i <= Backlog::kCallsOfOne; ++i) backlog.OnCall(Call(i, 1), &stages);
  for (uint64_t i = 1; i <= Backlog::kCallsOfOne; ++i) backlog.OnCall(Call(10'000 + i, 1), nullptr);
  for (Backlog::Taken rest = backlog.Take(); !rest.calls.empty(); rest = backlog.Take())
    EXPECT_TRUE(rest.stages.empty());
}

// Nor does it keep the others waiting: a request has some of each.
TEST(Backlog, TenantsAreTakenInTurns) {
  Metrics metrics;
  Backlog backlog(&metrics);
  for (uint32_t owner = 0; owner < 4; ++owner) {
    for (uint64_t i = 0; i < Backlog::kCallsOfOne; ++i) backlog.OnCall(Call(1000 * owner + i + 1, owner), nullptr);
  }
  // Beyond those with numbers, all have one place.
  backlog.OnCall(Call(9'000, Accounts::kNumbered + 1), nullptr);
  backlog.OnCall(Call(9'001, Accounts::kNumbered + 5'000'000), nullptr);
  std::map<uint32_t, size_t> first;
  for (const CallRecord& call : backlog.Take().calls) ++first[call.owner];
  EXPECT_EQ(first, (std::map<uint32_t, size_t>({{0, 64}, {1, 64}, {2, 64}, {3, 64}})));
  const Backlog::Taken second = backlog.Take();
  ASSERT_GE(second.calls.size(), 2);
  EXPECT_EQ(NumbersOf({second.calls.begin(), second.calls.begin() + 2}), std::vector<uint64_t>({9'000, 9'001}));
}

TEST(Backlog, EnoughCallsWakeWhoWaits) {
  Metrics metrics;
  Backlog backlog(&metrics);
  std::thread waiter([&] { backlog.Wait(absl::InfiniteDuration()); });
  for (uint64_t i = 1; i <= 256; ++i) backlog.OnCall(Call(i, 1), nullptr);
  waiter.join();
  backlog.Wake();
  backlog.Wait(absl::InfiniteDuration());
  EXPECT_EQ(backlog.Take().calls.size(), 64);
}

TEST(WaitAfter, DoublesAndHeedsTheCollector) {
  EXPECT_EQ(WaitAfter(1, 1, absl::ZeroDuration()), absl::Seconds(1));
  EXPECT_EQ(WaitAfter(1, 0, absl::ZeroDuration()), absl::Milliseconds(500));
  EXPECT_EQ(WaitAfter(3, 1, absl::ZeroDuration()), absl::Seconds(4));
  EXPECT_EQ(WaitAfter(6, 1, absl::ZeroDuration()), absl::Seconds(30));
  EXPECT_EQ(WaitAfter(1'000'000, 0.5, absl::ZeroDuration()), absl::Milliseconds(22'500));
  EXPECT_EQ(WaitAfter(1, 0, absl::Seconds(7)), absl::Seconds(7));
  EXPECT_EQ(WaitAfter(6, 1, absl::Seconds(7)), absl::Seconds(30));
}

}  // namespace
}  // namespace kiln::server
