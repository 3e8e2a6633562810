#include "server/metrics/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "server/metrics/count.h"

namespace kiln::server {
namespace {

struct Row {
  std::string name, help;
};

const Row kRows[] = {
#define COUNTER(member, unit, name, help, ...) {name, help},
#define HISTOGRAM(member, bounds, name, help, ...) {name, help},
#define READ(Member, kind, name, help, ...) {name, help},
#include "server/metrics/metrics.def"
#undef COUNTER
#undef HISTOGRAM
#undef READ
};

TEST(Cells, SumsAreExactUnderThreads) {
  constexpr size_t kThreads = 8, kEach = 20'000;
  Cells cells(3);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&cells] {
      for (size_t n = 0; n < kEach; ++n) {
        cells.Add(0, 1);
        cells.Add(2, n);
      }
    });
  }
  uint64_t before = 0;  // what is read meanwhile never goes down
  for (int i = 0; i < 1000; ++i) {
    const uint64_t now = cells.Sum(0);
    EXPECT_GE(now, before);
    before = now;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cells.Sum(0), kThreads * kEach);
  EXPECT_EQ(cells.Sum(1), 0);
  EXPECT_EQ(cells.Sum(2), kThreads * (kEach * (kEach - 1) / 2));
}

TEST(Counter, EachSeriesIsItsOwn) {
  Metrics metrics;
  metrics.cache_lookups.Add(1, CacheResult::kHit, CacheReason::kMemory);
  metrics.cache_lookups.Add(2, CacheResult::kMiss, CacheReason::kCompiled);
  metrics.cache_lookups.Add(4, CacheResult::kMiss, CacheReason::kFailed);
  using Of = Series<CacheResult, CacheReason>;
  EXPECT_EQ(metrics.cache_lookups.Sum(Of::Of(CacheResult::kHit, CacheReason::kMemory)), 1);
  EXPECT_EQ(metrics.cache_lookups.Sum(Of::Of(CacheResult::kMiss, CacheReason::kCompiled)), 2);
  EXPECT_EQ(metrics.cache_lookups.Sum(Of::Of(CacheResult::kMiss, CacheReason::kFailed)), 4);
  std::set<size_t> all;
  for (size_t result = 0; result < LabelOf<CacheResult>::kMost; ++result) {
    for (size_t reason = 0; reason < LabelOf<CacheReason>::kMost; ++reason)
      all.insert(Of::Of(static_cast<CacheResult>(result), static_cast<CacheReason>(reason)));
  }
  EXPECT_EQ(all.size(), Of::kCount);
  EXPECT_EQ(*all.rbegin(), Of::kCount - 1);
}

TEST(Histogram, AValueIsInTheFirstBucketThatHoldsIt) {
  Metrics metrics;
  for (const int64_t nanos : {int64_t{-5}, int64_t{0}, int64_t{1}, int64_t{10'000}, int64_t{10'001},
                              int64_t{100'000'000'000}, int64_t{100'000'000'001}})
    metrics.calls.Observe(nanos, Method{3}, GrpcStatus::kOk);
  const size_t series = Series<Method, GrpcStatus>::Of(Method{3}, GrpcStatus::kOk);
  EXPECT_EQ(metrics.calls.Count(series, 0), 2);  // up to 0, and a clock that was set back
  EXPECT_EQ(metrics.calls.Count(series, 1), 2);  // up to 10 µs
  EXPECT_EQ(metrics.calls.Count(series, 2), 1);
  constexpr size_t kLast = std::size(kCallBounds);
  EXPECT_EQ(metrics.calls.Count(series, kLast - 1), 1);
  EXPECT_EQ(metrics.calls.Count(series, kLast), 1);
  EXPECT_EQ(metrics.calls.Sum(series), 200'000'020'003);
  EXPECT_EQ(metrics.calls.Sum(series - 1), 0);
}

TEST(Histogram, BoundsGrow) {
  EXPECT_TRUE(std::is_sorted(std::begin(kCallBounds), std::end(kCallBounds), std::less_equal<>()));
  EXPECT_TRUE(std::is_sorted(std::begin(kStepBounds), std::end(kStepBounds), std::less_equal<>()));
  EXPECT_TRUE(std::is_sorted(std::begin(kRowBounds), std::end(kRowBounds), std::less_equal<>()));
  EXPECT_TRUE(std::is_sorted(std::begin(kCompileBounds), std::end(kCompileBounds), std::less_equal<>()));
}

// However many tenants and devices there are, there are no more series than these.
TEST(Labels, OpenOnesAreBounded) {
  Accounts accounts;
  EXPECT_EQ(NumberOf(TenantOf(nullptr)), 0);
  for (size_t i = 0; i < Accounts::kNumbered + 10; ++i) accounts.Of(std::to_string(i));
  EXPECT_EQ(NumberOf(TenantOf(accounts.Of("0"))), 2);
  EXPECT_EQ(NumberOf(TenantOf(accounts.Of("253"))), LabelOf<TenantNumber>::kMost - 1);
  EXPECT_EQ(NumberOf(TenantOf(accounts.Of("254"))), 1);
  EXPECT_EQ(NumberOf(TenantOf(accounts.Of("1000"))), 1);
  EXPECT_EQ(accounts.Numbered(253)->name(), "253");
  EXPECT_EQ(NumberOf(DeviceNumber{1'000'000}), LabelOf<DeviceNumber>::kMost - 1);
  Metrics metrics;
  metrics.device_busy.AddSeconds(1.5, DeviceNumber{1'000'000}, TenantOf(accounts.Of("1001")));
  metrics.device_busy.AddSeconds(-1, DeviceNumber{0}, TenantOf(nullptr));
  using Of = Series<DeviceNumber, TenantNumber>;
  EXPECT_EQ(metrics.device_busy.Sum(Of::Of({LabelOf<DeviceNumber>::kMost - 1}, {1})), 1'500'000'000);
  EXPECT_EQ(metrics.device_busy.Sum(0), 0);
}

TEST(Labels, OpenNamesAreTheServersOwn) {
  const OpenNames names = {{"a"}, {"CPU:0"}, {"", "other", "alice"}, {}, {}};
  EXPECT_STREQ(LabelOf<TenantNumber>::NameOf(2, names), "alice");
  EXPECT_EQ(LabelOf<TenantNumber>::NameOf(3, names), nullptr);
  EXPECT_EQ(LabelOf<DeviceNumber>::NameOf(1, names), nullptr);
}

TEST(Count, ARejectionHasItsLimit) {
  Metrics metrics;
  const auto counted = [&metrics](Limit limit) { return metrics.rejections.Sum(Series<Limit>::Of(limit)); };
  CountFailure(metrics, absl::OkStatus());
  CountFailure(metrics, MakeError(v1::BAD_ARGUMENT, "no limit"));
  CountFailure(metrics, TooLarge("nodes", 1, 2, "many"));
  Account account;
  account.SetLimits({1});
  CountFailure(metrics, account.Take(Quota::kDeviceBytes, 2));
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("what a client made up");
  CountFailure(metrics, MakeError(detail, "?"));
  detail.set_limit("entries waiting for a device");
  CountFailure(metrics, MakeError(detail, "many"));
  EXPECT_EQ(counted(Limit::kWaiting), 1);
  EXPECT_EQ(counted(Limit::kNodes), 1);
  EXPECT_EQ(counted(Limit::kDeviceBytes), 1);
  EXPECT_EQ(counted(Limit::kOther), 1);
  uint64_t all = 0;
  for (size_t limit = 0; limit < LabelOf<Limit>::kMost; ++limit) all += metrics.rejections.Sum(limit);
  EXPECT_EQ(all, 4);
}

TEST(Count, WhoGoesAndWhoIsLate) {
  Metrics metrics;
  for (const absl::Status& status :
       {absl::OkStatus(), absl::CancelledError(), absl::DeadlineExceededError(""), absl::InternalError("")})
    CountEnded(metrics, status, Place::kQueue);
  EXPECT_EQ(metrics.cancelled.Sum(Series<Place>::Of(Place::kQueue)), 1);
  EXPECT_EQ(metrics.deadline_missed.Sum(Series<Place>::Of(Place::kQueue)), 1);
  EXPECT_EQ(EndOf(absl::OkStatus()), CompileEnd::kOk);
  EXPECT_EQ(EndOf(MakeError(v1::WRONG_SOURCE_COUNT, "")), CompileEnd::kRefused);
  EXPECT_EQ(EndOf(MakeError(v1::COMPILER_FAULT, "")), CompileEnd::kFault);
  EXPECT_EQ(EndOf(absl::UnknownError("no detail")), CompileEnd::kFault);
}

TEST(Count, ARunIsItsDevicesAndItsTenants) {
  Metrics metrics;
  Accounts accounts;
  RunCounter runs(&metrics, {"CPU:0", "CPU:1"}, nullptr);
  runtime::RunRecord record;
  record.device = "CPU:1";
  record.queue_seconds = 0.25;
  record.device_seconds = 0.5;
  runs.OnRun(record);
  record.account = accounts.Of("alice");
  runs.OnRun(record);
  runs.OnRun(record);
  using Of = Series<DeviceNumber, TenantNumber>;
  EXPECT_EQ(metrics.device_busy.Sum(Of::Of({1}, {0})), 500'000'000);
  EXPECT_EQ(metrics.device_busy.Sum(Of::Of({1}, {2})), 1'000'000'000);
  EXPECT_EQ(metrics.queue.Sum(0), 750'000'000);
  EXPECT_FALSE(runs.WantsLaunches(0));
}

// What Prometheus asks of names; promtool asks the same of a whole page (tests/python/server/metrics_test.py).
TEST(Table, NamesAreDistinctAndHelpIsThere) {
  std::set<std::string> names;
  for (const Row& row : kRows) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(row.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << row.name;
    EXPECT_EQ(row.help.empty() ? ' ' : row.help.back(), '.') << row.name;
  }
}

}  // namespace
}  // namespace kiln::server
