#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/account.h"
#include "server/trace/parts.h"
#include "server/trace/ring.h"
#include "server/trace/stages.h"
#include "server/trace/trace_context.h"
#include "server/trace/traces.h"

namespace kiln::server {
namespace {

// A record that shows whether it was torn.
struct Twice {
  uint64_t first = 0;
  std::array<uint64_t, 14> others = {};

  static Twice Of(uint64_t number) {
    Twice twice;
    twice.first = number;
    twice.others.fill(number);
    return twice;
  }
  bool whole() const {
    return std::all_of(others.begin(), others.end(), [this](uint64_t other) { return other == first; });
  }
};
constexpr size_t kSlot = sizeof(Twice) + sizeof(uint64_t);

std::vector<uint64_t> NumbersOf(const Ring<Twice>& ring) {
  std::vector<uint64_t> numbers;
  ring.Read([&](const Twice& record) { numbers.push_back(record.first); });
  return numbers;
}

TEST(Ring, KeepsTheLast) {
  Ring<Twice> ring(3 * kSlot, /*shards=*/1);
  EXPECT_EQ(NumbersOf(ring), std::vector<uint64_t>());
  ring.Write(Twice::Of(7));
  EXPECT_EQ(NumbersOf(ring), std::vector<uint64_t>({7}));
  for (uint64_t number = 8; number <= 20; ++number) ring.Write(Twice::Of(number));
  EXPECT_EQ(NumbersOf(ring), std::vector<uint64_t>({18, 19, 20}));
  EXPECT_EQ(ring.dropped(), 0u);
}

TEST(Ring, KeepsNothingInTooLittleMemory) {
  Ring<Twice> ring(kSlot - 1, /*shards=*/1);
  EXPECT_FALSE(ring.keeps());
  ring.Write(Twice::Of(1));
  EXPECT_EQ(NumbersOf(ring), std::vector<uint64_t>());
}

TEST(Ring, WritersAndReadersDoNotTearRecords) {
  // So few slots that writers meet.
  Ring<Twice> ring(2 * kSlot, /*shards=*/1);
  constexpr uint64_t kWriters = 3, kEach = 20'000;
  std::atomic<uint64_t> running{kWriters};
  std::vector<std::thread> threads;
  for (uint64_t writer = 0; writer < kWriters; ++writer) {
    threads.emplace_back([&, writer] {
      for (uint64_t i = 0; i < kEach; ++i) ring.Write(Twice::Of(writer * kEach + i + 1));
      running.fetch_sub(1);
    });
  }
  uint64_t torn = 0, seen = 0;
  while (running.load() > 0 || seen == 0) {
    ring.Read([&](const Twice& record) {
      ++seen;
      torn += record.whole() ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(torn, 0u);
  EXPECT_GE(NumbersOf(ring).size(), 1u);
}

TEST(ShortText, EndsWithAWholeCharacter) {
  ShortText<4> text;
  text.Set("abc");
  EXPECT_EQ(text.view(), "abc");
  text.Set("abcdef");
  EXPECT_EQ(text.view(), "abcd");
  text.Set("abc\u00e9");  // two bytes, of which one would fit
  EXPECT_EQ(text.view(), "abc");
  text.Set("");
  EXPECT_EQ(text.view(), "");
}

constexpr char kTrace[] = "0123456789abcdef0123456789abcdef", kSpan[] = "00f067aa0ba902b7";

TEST(Traceparent, IsRead) {
  for (const std::string& header :
       {absl::StrCat("00-", kTrace, "-", kSpan, "-01"), absl::StrCat("00-", kTrace, "-", kSpan, "-00"),
        absl::StrCat("01-", kTrace, "-", kSpan, "-01"), absl::StrCat("01-", kTrace, "-", kSpan, "-01-later")}) {
    const auto context = ParseTraceparent(header);
    ASSERT_TRUE(context.has_value()) << header;
    EXPECT_EQ(context->trace_id[0], 0x01);
    EXPECT_EQ(context->trace_id[15], 0xef);
    EXPECT_EQ(context->parent[1], 0xf0);
    EXPECT_EQ(context->parent[7], 0xb7);
    EXPECT_EQ(context->sampled, header[54] == '1');
  }
}

TEST(Traceparent, IsPassedOverIfMalformed) {
  const std::string good = absl::StrCat("00-", kTrace, "-", kSpan, "-01");
  std::vector<std::string> bad = {
      "",
      "00",
      good + "0",
      good + "-later",                                      // of version 00 there is no more
      absl::StrCat("01-", kTrace, "-", kSpan, "-01later"),  // and of others after a hyphen
      absl::StrCat("ff-", kTrace, "-", kSpan, "-01"),       // never a version
      absl::StrCat("00-", std::string(32, '0'), "-", kSpan, "-01"),
      absl::StrCat("00-", kTrace, "-", std::string(16, '0'), "-01"),
      absl::StrCat("00-", std::string(32, 'A'), "-", kSpan, "-01"),  // lower case alone
      absl::StrCat("0g-", kTrace, "-", kSpan, "-01"),
      absl::StrCat("00-", kTrace, "-", kSpan, "-0x"),
      absl::StrCat("00_", kTrace, "-", kSpan, "-01"),
      absl::StrCat("00-", kTrace, "_", kSpan, "-01"),
      absl::StrCat("00-", kTrace, "-", kSpan, "_01"),
      std::string(1 << 20, '0'),
  };
  for (size_t length = 0; length < good.size(); ++length) bad.push_back(good.substr(0, length));
  for (const std::string& header : bad) EXPECT_FALSE(ParseTraceparent(header).has_value()) << header.substr(0, 80);
}

// "name begin end" each.
std::vector<std::string> Shown(const CompileStages& stages) {
  std::vector<std::string> shown;
  for (const StageTime& stage : stages.all())
    shown.push_back(absl::StrCat(NameOf(stage.stage), " ", stage.time.begin_ns, " ", stage.time.end_ns));
  return shown;
}

void Add(CompileStages& stages, CompileStage stage, int64_t begin_ns, int64_t end_ns) {
  stages.Add(stage, absl::FromUnixNanos(begin_ns), absl::FromUnixNanos(end_ns));
}

TEST(CompileStages, ComeOneAfterTheOtherWhateverIsSaidOfThem) {
  CompileStages stages;
  Add(stages, CompileStage::kWait, 100, 200);
  Add(stages, CompileStage::kImport, 150, 300);  // not before the last one's end
  Add(stages, CompileStage::kCode, 400, 350);    // nor does it end before it begins
  Add(stages, CompileStage::kLoad, 500, 600);
  EXPECT_EQ(Shown(stages),
            std::vector<std::string>({"wait 100 200", "import 200 300", "code 400 400", "load 500 600"}));
  EXPECT_EQ(Shown(stages.Within({250, 550})), std::vector<std::string>({"import 250 300", "load 500 550"}));
  EXPECT_EQ(Shown(stages.Within({})), std::vector<std::string>());
  for (int i = 0; i < 1000; ++i) Add(stages, CompileStage::kCode, 700 + i, 701 + i);
  EXPECT_EQ(stages.all().size(), CompileStages::kMost);
  EXPECT_EQ(stages.all()[3].stage, CompileStage::kLoad) << "the first are kept";
  EXPECT_EQ(stages.all().back().time.end_ns, 1700) << "and the last";
}

TEST(CompileStages, TheLastOfAFailureIsWhereItFailed) {
  CompileStages stages;
  stages.Fail();
  EXPECT_TRUE(stages.all().empty());
  Add(stages, CompileStage::kImport, 100, 200);
  Add(stages, CompileStage::kSchedule, 200, 200);
  stages.Fail();
  EXPECT_FALSE(stages.all()[0].failed);
  EXPECT_TRUE(stages.all()[1].failed);
  // However short it was, but not where the call did not wait for it.
  EXPECT_EQ(Shown(stages.Within({150, 300})), std::vector<std::string>({"import 150 200", "schedule 200 200"}));
  EXPECT_TRUE(stages.Within({150, 300}).all()[1].failed);
  EXPECT_EQ(Shown(stages.Within({120, 180})), std::vector<std::string>({"import 120 180"}));
  EXPECT_EQ(Shown(stages.Within({})), std::vector<std::string>());
}

CallRecord Call(int64_t end_ns, uint32_t owner) {
  CallRecord record;
  record.time = {end_ns - 10, end_ns};
  record.owner = owner;
  return record;
}

TraceContext Context(bool sampled) {
  TraceContext context;
  context.trace_id.fill(7);
  context.parent.fill(9);
  context.sampled = sampled;
  return context;
}

TEST(Traces, CallsHaveTheirCallersTraceOrOneOfTheirOwn) {
  Traces traces(1 << 20);
  const CallTrace theirs = traces.Begin(Context(true)), first = traces.Begin(std::nullopt),
                  second = traces.Begin(std::nullopt);
  EXPECT_EQ(theirs.trace_id, Context(true).trace_id);
  EXPECT_EQ(theirs.parent, Context(true).parent);
  EXPECT_TRUE(theirs.remote);
  EXPECT_EQ(theirs.number(), 0u) << "nobody gets it";
  EXPECT_EQ(first.parent, SpanId());
  EXPECT_EQ(first.trace_id, TraceOf(first.span_id));
  EXPECT_NE(first.trace_id, second.trace_id);
  EXPECT_NE(first.span_id, second.span_id);
  EXPECT_NE(first.trace_id, TraceId());
  EXPECT_NE(ChildOf(first.span_id, 1), ChildOf(first.span_id, 2));
  CallRecord record = Call(100, 0);
  record.trace = theirs;
  traces.Keep(record);
  ASSERT_EQ(traces.Calls({}).size(), 1u);
  EXPECT_EQ(traces.Calls({})[0].trace.trace_id, theirs.trace_id);
}

TEST(Traces, CommandsAreOfTheirStreamsTraceIfTheClientNamedOne) {
  Traces traces(1 << 20);
  const CallTrace theirs = traces.Begin(Context(false)), own = traces.Begin(std::nullopt);
  const CallTrace child = traces.BeginCommand(theirs), linked = traces.BeginCommand(own);
  EXPECT_EQ(child.trace_id, theirs.trace_id);
  EXPECT_EQ(child.parent, theirs.span_id);
  EXPECT_FALSE(child.linked);
  EXPECT_FALSE(child.remote);
  EXPECT_EQ(linked.parent, own.span_id);
  EXPECT_TRUE(linked.linked);
  EXPECT_NE(linked.trace_id, own.trace_id);
  EXPECT_EQ(TraceOf(linked.parent), own.trace_id);
}

class Gathered final : public TraceSink {
 public:
  void OnCall(const CallRecord& call, const CompileStages* own) override {
    calls.push_back(call);
    if (own != nullptr) stages.push_back(*own);
  }
  void OnRun(const RunOfDevice& run) override { runs.push_back(run); }
  std::vector<CallRecord> calls;
  std::vector<CompileStages> stages;
  std::vector<RunOfDevice> runs;
};

TEST(Traces, TheCallersWordIsBeforeTheRatio) {
  for (const double ratio : {0.0, 1.0}) {
    Traces traces(0);
    EXPECT_FALSE(traces.on());
    const auto sink = std::make_shared<Gathered>();
    traces.SetSink(sink, ratio);
    EXPECT_TRUE(traces.on());
    EXPECT_TRUE(traces.Begin(Context(true)).sampled);
    EXPECT_FALSE(traces.Begin(Context(false)).sampled);
    EXPECT_EQ(traces.Begin(std::nullopt).sampled, ratio == 1);
    EXPECT_TRUE(traces.BeginCommand(traces.Begin(Context(true))).sampled);
    EXPECT_FALSE(traces.BeginCommand(traces.Begin(Context(false))).sampled);
    CallRecord record = Call(100, 0);
    for (const bool sampled : {true, false}) {
      record.trace = traces.Begin(Context(sampled));
      traces.Keep(record);
    }
    ASSERT_EQ(sink->calls.size(), 1u);
    EXPECT_TRUE(sink->calls[0].trace.sampled);
  }
}

TEST(Traces, ACallHasWhatOfACompilationWasInIt) {
  Traces traces(1 << 20);
  const auto sink = std::make_shared<Gathered>();
  traces.SetSink(sink, 0);
  CompileStages stages;
  Add(stages, CompileStage::kImport, 10, 20);
  Add(stages, CompileStage::kCode, 20, 90);
  CallRecord first = Call(100, 0), joined = Call(100, 0), other = Call(100, 0);
  for (CallRecord* each : {&first, &joined, &other}) each->trace = traces.Begin(Context(true));
  first.parts.parts[static_cast<size_t>(Part::kCompile)] = {5, 95};
  joined.parts.parts[static_cast<size_t>(Part::kCompile)] = {50, 95};
  traces.Keep(first, &stages);
  traces.Keep(joined, &stages);
  traces.Keep(other, &stages);  // whose program was there
  traces.Keep(other);
  const auto kept = traces.Stages();
  EXPECT_EQ(kept.size(), 2u);
  EXPECT_EQ(Shown(kept.at(first.trace.span_id)), std::vector<std::string>({"import 10 20", "code 20 90"}));
  EXPECT_EQ(Shown(kept.at(joined.trace.span_id)), std::vector<std::string>({"code 50 90"}));
  ASSERT_EQ(sink->stages.size(), 2u);
  EXPECT_EQ(Shown(sink->stages[1]), std::vector<std::string>({"code 50 90"}));
  EXPECT_EQ(sink->calls.size(), 4u);
}

// By the trace's id: half of many, within ten standard deviations.
TEST(Traces, TheRatioIsOfMany) {
  Traces traces(0);
  traces.SetSink(std::make_shared<Gathered>(), 0.5);
  constexpr int kMany = 10'000;
  int sampled = 0;
  for (int i = 0; i < kMany; ++i) sampled += traces.Begin(std::nullopt).sampled ? 1 : 0;
  EXPECT_NEAR(sampled, kMany / 2, 500);
}

TEST(Traces, RunsAndKernelsOfSampledCallsAreTheSinks) {
  Traces traces(0);
  const auto sink = std::make_shared<Gathered>();
  traces.SetSink(sink, 0);
  const uint64_t number = traces.Begin(Context(true)).number();
  EXPECT_NE(number, 0u);
  EXPECT_TRUE(traces.WantsLaunches(number));
  EXPECT_FALSE(traces.WantsLaunches(0));
  Accounts accounts;
  const Account* const alice = accounts.Of("alice");
  traces.OnLaunch({"CPU:0", "add", 1e-3, alice, number});
  runtime::RunRecord run;
  run.device = "CPU:0";
  run.account = alice;
  traces.OnRun(run);
  run.trace = number;
  traces.OnRun(run);
  ASSERT_EQ(sink->runs.size(), 2u);
  EXPECT_EQ(sink->runs[0].kernel.view(), "add");
  for (const RunOfDevice& each : sink->runs) {
    EXPECT_EQ(each.call, number);
    EXPECT_EQ(OwnerName(accounts, each.owner), "alice");
  }
  EXPECT_EQ(OwnerName(accounts, 0), "");
  EXPECT_EQ(OwnerName(accounts, 1'000'000), "");
}

TEST(Traces, AreChosenByOwnerAndEnd) {
  Traces traces(1 << 20);
  Accounts accounts;
  const Account* const alice = accounts.Of("alice");
  const Account* const bob = accounts.Of("bob");
  EXPECT_EQ(OwnerNumber(nullptr), 0u);
  EXPECT_NE(OwnerNumber(alice), OwnerNumber(bob));
  for (const int64_t end : {100, 200, 300}) traces.Keep(Call(end, OwnerNumber(alice)));
  traces.Keep(Call(250, OwnerNumber(bob)));
  traces.Keep(Call(260, 0));
  const auto ends = [&](const Traces::Wanted& wanted) {
    std::vector<int64_t> found;
    for (const CallRecord& call : traces.Calls(wanted)) found.push_back(call.time.end_ns);
    return found;
  };
  EXPECT_EQ(ends({}), std::vector<int64_t>({100, 200, 250, 260, 300}));
  EXPECT_EQ(ends({OwnerNumber(alice), 200}), std::vector<int64_t>({200, 300}));
  EXPECT_EQ(ends({OwnerNumber(bob), 0}), std::vector<int64_t>({250}));
}

class Observed final : public runtime::RuntimeObserver {
 public:
  void OnRun(const runtime::RunRecord&) override { ++runs; }
  int runs = 0;
};

TEST(Traces, KernelsAreKeptWhileSomebodyAsks) {
  Observed next;
  Traces traces(1 << 20, &next);
  EXPECT_FALSE(traces.WantsLaunches(0));
  traces.KeepLaunches(absl::Now() - absl::Seconds(1));
  EXPECT_FALSE(traces.WantsLaunches(0));
  traces.KeepLaunches(absl::Now() + absl::Hours(1));
  EXPECT_TRUE(traces.WantsLaunches(0));
  traces.OnLaunch({.device = "CPU:0", .kernel = "add", .seconds = 1e-3});
  runtime::RunRecord run;
  run.device = "CPU:0";
  run.device_seconds = 2e-3;
  run.launches = 1;
  traces.OnRun(run);
  EXPECT_EQ(next.runs, 1);
  const std::vector<RunOfDevice> runs = traces.Runs({});
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].kernel.view(), "add");
  EXPECT_EQ(runs[0].time.end_ns - runs[0].time.begin_ns, 1'000'000);
  EXPECT_EQ(runs[1].kernel.view(), "");
  EXPECT_EQ(runs[1].device.view(), "CPU:0");
  EXPECT_EQ(runs[1].time.end_ns - runs[1].time.begin_ns, 2'000'000);
}

TEST(Traces, AreOffWithoutMemory) {
  Traces traces(0);
  EXPECT_FALSE(traces.on());
  traces.KeepLaunches(absl::Now() + absl::Hours(1));
  EXPECT_FALSE(traces.WantsLaunches(0));
  traces.Keep(Call(100, 0));
  traces.OnRun({});
  EXPECT_TRUE(traces.Calls({}).empty());
  EXPECT_TRUE(traces.Runs({}).empty());
}

}  // namespace
}  // namespace kiln::server
