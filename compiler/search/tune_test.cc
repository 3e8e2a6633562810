// The search over whole programs, with times that are made up.
#include "compiler/search/tune.h"

#include <gtest/gtest.h>

#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "compiler/search/choose.h"

namespace kiln::compiler {
namespace {

v1::Graph Parsed(absl::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

v1::Target NullTarget() {
  v1::Target target;
  target.set_kind(v1::Target::NULL_TARGET);
  target.mutable_tuning()->set_vector_bytes(64);
  target.mutable_tuning()->set_vector_registers(32);
  return target;
}

// Sums of columns; and, from `more` on, what else the program does with them.
v1::Graph Sums(const std::string& more) {
  return Parsed(absl::StrCat(R"(
    0 CONST [] weakint 64
    1 CONST [] weakint 96
    2 STACK [0, 1]
    3 PARAM : float32 [2] slot=0
    4 REDUCE [3] ADD axes=(0)
  )",
                             more));
}

// A kernel is the faster the more often its schedule says what it likes.
class FakeTimer final : public KernelTimer {
 public:
  explicit FakeTimer(std::string likes) : likes_(std::move(likes)) {}

  void InParallel(std::vector<absl::AnyInvocable<void()>> jobs) override {
    for (auto& job : jobs) job();
  }
  Timing Time(const v1::Executable& executable, double) override {
    EXPECT_EQ(executable.kernels_size(), 1);
    EXPECT_EQ(executable.steps_size(), 1);
    const std::string& schedule = executable.kernels(0).schedule();
    left -= 1000;
    ++runs;
    timed.insert(schedule);
    if (!hates.empty() && absl::StrContains(schedule, hates)) return {0, "it does not end"};
    return {absl::StrContains(schedule, likes_) ? 50.0 : 100.0, ""};
  }
  double LeftMicros() override { return left; }
  absl::Status Wanted() override { return runs < max_runs ? absl::OkStatus() : absl::CancelledError("gone"); }

  std::string hates;
  double left = 1e9;
  int runs = 0, max_runs = 1'000'000;
  std::set<std::string> timed;

 private:
  const std::string likes_;
};

TEST(Tune, TheProgramHasWhatWasFound) {
  const v1::Graph graph = Sums("5 TUPLE [4]");
  FakeTimer timer("REDUCE");
  std::vector<TuneEvent> events;
  TuneOptions options;
  options.progress = [&](const TuneEvent& event) { events.push_back(event); };
  const auto tuned = Tune(graph, NullTarget(), Options(), options, timer);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  ASSERT_EQ(tuned->executable.kernels_size(), 1);
  EXPECT_TRUE(absl::StrContains(tuned->executable.kernels(0).schedule(), "REDUCE"));
  EXPECT_EQ(tuned->first_micros, 100);
  EXPECT_EQ(tuned->best_micros, 50);
  EXPECT_EQ(tuned->candidates, events.size());
  EXPECT_GT(events.size(), 10u);
  EXPECT_EQ(events[0].first_micros, 100);
  EXPECT_EQ(events[0].kernels, 1u);
  EXPECT_EQ(events[0].name, tuned->executable.kernels(0).name());

  // But for that, it is the program that the rules make.
  v1::Executable plain = *Compile(graph, NullTarget(), Options());
  EXPECT_NE(plain.kernels(0).schedule(), tuned->executable.kernels(0).schedule());
  EXPECT_EQ(plain.kernels(0).symbol(), tuned->executable.kernels(0).symbol());
  EXPECT_EQ(plain.signature().SerializeAsString(), tuned->executable.signature().SerializeAsString());
}

// Compiled elsewhere, in a process that some candidates end: those are not tried, and the rest is as ever.
TEST(Tune, CandidatesAreCompiledWhereItIsTold) {
  const v1::Graph graph = Sums("5 TUPLE [4]");
  FakeTimer timer("LOOP");
  int compiled = 0, faults = 0;
  TuneOptions options;
  options.progress = [&](const TuneEvent& event) { faults += event.fault == "it has ended"; };
  options.compile = [&](const v1::Graph& candidate, const v1::Target& target, const Options& how,
                        CompileObserver* observer) -> absl::StatusOr<v1::Executable> {
    ++compiled;
    auto executable = Compile(candidate, target, how, observer);
    if (executable.ok() && absl::StrContains(executable->kernels(0).schedule(), "REDUCE"))
      return MakeError(v1::COMPILER_FAULT, "it has ended");
    return executable;
  };
  const auto tuned = Tune(graph, NullTarget(), Options(), options, timer);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_TRUE(absl::StrContains(tuned->executable.kernels(0).schedule(), "LOOP"));
  EXPECT_FALSE(absl::StrContains(tuned->executable.kernels(0).schedule(), "REDUCE"));
  EXPECT_GT(compiled, 10);
  EXPECT_GT(faults, 0);
  // Where the program itself finds no compiler, there is no search either.
  options.compile = [](const v1::Graph&, const v1::Target&, const Options&, CompileObserver*) {
    return absl::StatusOr<v1::Executable>(MakeError(v1::COMPILER_FAULT, "it has ended"));
  };
  EXPECT_EQ(DetailOf(Tune(graph, NullTarget(), Options(), options, timer).status())->code(), v1::COMPILER_FAULT);
}

// Chosen elsewhere, in a process that some steps end: nothing follows those, and the rest is as ever.
TEST(Tune, StepsAreChosenWhereItIsTold) {
  const v1::Graph graph = Sums("5 TUPLE [4]");
  FakeTimer here("REDUCE"), there("REDUCE");
  const auto tuned_here = Tune(graph, NullTarget(), Options(), {}, here);
  int chosen = 0;
  TuneOptions options;
  options.choose = [&](const v1::Graph& kernel, const v1::Target& target, const Limits& limits, const std::string& from,
                       uint32_t most, const std::function<bool()>& stop) {
    ++chosen;
    return Choose(kernel, target, limits, from, most, stop);
  };
  const auto tuned_there = Tune(graph, NullTarget(), Options(), options, there);
  ASSERT_TRUE(tuned_here.ok() && tuned_there.ok());
  EXPECT_EQ(tuned_there->executable.SerializeAsString(), tuned_here->executable.SerializeAsString());
  EXPECT_EQ(there.timed, here.timed);
  EXPECT_GT(chosen, 2);

  // One that tells nothing after the first: what is best of the usual schedule's neighbours is found.
  FakeTimer first("REDUCE");
  options.choose = [&](const v1::Graph& kernel, const v1::Target& target, const Limits& limits, const std::string& from,
                       uint32_t most, const std::function<bool()>& stop) -> absl::StatusOr<Choices> {
    if (most > 0 && absl::StrContains(from, "REDUCE")) return MakeError(v1::COMPILER_FAULT, "it has ended");
    return Choose(kernel, target, limits, from, most, stop);
  };
  const auto tuned = Tune(graph, NullTarget(), Options(), options, first);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_TRUE(absl::StrContains(tuned->executable.kernels(0).schedule(), "REDUCE"));
  EXPECT_LT(first.timed.size(), here.timed.size());
  // None at all, or nonsense: the program is as the rules have it.
  for (const bool nonsense : {false, true}) {
    options.choose = [&](const v1::Graph&, const v1::Target&, const Limits&, const std::string&, uint32_t,
                         const std::function<bool()>&) -> absl::StatusOr<Choices> {
      if (nonsense) return Choices{true, {"SPLIT(", "NOTHING", "SPLIT(9, 9, UPCAST)"}};
      return MakeError(v1::COMPILER_FAULT, "it has ended");
    };
    const auto plain = Tune(graph, NullTarget(), Options(), options, first);
    ASSERT_TRUE(plain.ok()) << plain.status();
    EXPECT_EQ(plain->executable.SerializeAsString(), Compile(graph, NullTarget(), Options())->SerializeAsString());
  }
}

TEST(Tune, WhatIsBestStays) {
  const v1::Graph graph = Sums("5 TUPLE [4]");
  FakeTimer timer("SWAP");
  const auto tuned = Tune(graph, NullTarget(), Options(), {}, timer);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->executable.SerializeAsString(), Compile(graph, NullTarget(), Options())->SerializeAsString());
  EXPECT_EQ(tuned->first_micros, tuned->best_micros);
}

TEST(Tune, SkipsWhatDoesNotEnd) {
  FakeTimer timer("LOOP");
  timer.hates = "REDUCE";
  const auto tuned = Tune(Sums("5 TUPLE [4]"), NullTarget(), Options(), {}, timer);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_TRUE(absl::StrContains(tuned->executable.kernels(0).schedule(), "LOOP"));
  EXPECT_FALSE(absl::StrContains(tuned->executable.kernels(0).schedule(), "REDUCE"));
}

TEST(Tune, KernelsOfOneStructureAreSearchedOnce) {
  // Two sums, of two parameters, by one kernel.
  FakeTimer timer("REDUCE");
  std::set<uint32_t> kernels;
  TuneOptions options;
  options.progress = [&](const TuneEvent& event) { kernels.insert(event.kernel); };
  const auto tuned = Tune(Sums(R"(
    5 PARAM : float32 [2] slot=1
    6 REDUCE [5] ADD axes=(0)
    7 TUPLE [4, 6]
  )"),
                          NullTarget(), Options(), options, timer);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_EQ(tuned->executable.kernels_size(), 1);
  EXPECT_EQ(tuned->executable.steps_size(), 2);
  EXPECT_EQ(kernels.size(), 1u);
  EXPECT_EQ(tuned->first_micros, 200);  // it runs twice
  EXPECT_EQ(tuned->best_micros, 100);
  ASSERT_EQ(tuned->kernels.size(), 1u);
  EXPECT_EQ(tuned->kernels[0].kernel, 0u);
  EXPECT_EQ(tuned->kernels[0].calls, 2u);
  EXPECT_EQ(tuned->kernels[0].first_micros, 100);
  EXPECT_EQ(tuned->kernels[0].best_micros, 50);
}

// A client's own schedule, and loops of a size that is not a number.
TEST(Tune, LeavesKernelsThatTakeNoOptOps) {
  const std::string copy = R"(
    0 CONST [] weakint 16
    1 STACK [0]
    2 PARAM : float32 [1] slot=0
    3 PARAM : float32 [1] slot=1
    4 RANGE [0] range=(0) type=LOOP
    5 INDEX [2, 4]
    6 INDEX [3, 4]
    7 STORE [5, 6]
    8 END [7, 4]
    9 SINK [8] kernel name="copy" opts=(SPLIT 0 (4, 7)))";
  FakeTimer timer("LOOP");
  const auto asked = Tune(Parsed(copy), NullTarget(), Options(), {}, timer);
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(timer.runs, 0);
  EXPECT_EQ(asked->executable.kernels(0).schedule(), "SPLIT(0, 4, UPCAST); THREAD(0)");

  const auto sized = Tune(Parsed(R"(
    0 DEFINE_VAR : weakint [] slot=1 name="n" min=1 max=64
    1 CONST [] weakint 8
    2 STACK [0, 1]
    3 PARAM : float32 [2] slot=0
    4 REDUCE [3] ADD axes=(0)
    5 TUPLE [4]
  )"),
                          NullTarget(), Options(), {}, timer);
  ASSERT_TRUE(sized.ok()) << sized.status();
  EXPECT_EQ(timer.runs, 0);
}

TEST(Tune, KeepsToItsTime) {
  FakeTimer timer("REDUCE");
  timer.left = 12'500;
  const auto tuned = Tune(Sums("5 TUPLE [4]"), NullTarget(), Options(), {}, timer);
  ASSERT_TRUE(tuned.ok()) << tuned.status();
  EXPECT_TRUE(tuned->out_of_time);
  EXPECT_LT(timer.runs, 40);
}

TEST(Tune, EndsWhenItIsNotWanted) {
  FakeTimer timer("REDUCE");
  timer.max_runs = 5;
  const auto tuned = Tune(Sums("5 TUPLE [4]"), NullTarget(), Options(), {}, timer);
  EXPECT_TRUE(absl::IsCancelled(tuned.status())) << tuned.status();
  EXPECT_LT(timer.runs, 40);
}

TEST(Tune, OfACallerWhoHasGoneNothingMoreIsCompiled) {
  FakeTimer timer("REDUCE");
  int compiled = 0;
  TuneOptions tuning;
  tuning.compile = [&](const v1::Graph& graph, const v1::Target& target, const Options& options,
                       CompileObserver* observer) {
    if (++compiled == 10) timer.max_runs = 0;  // in the middle of those that are compiled together
    return Compile(graph, target, options, observer);
  };
  const auto tuned = Tune(Sums("5 TUPLE [4]"), NullTarget(), Options(), tuning, timer);
  EXPECT_TRUE(absl::IsCancelled(tuned.status())) << tuned.status();
  EXPECT_EQ(compiled, 10);
}

TEST(Tune, AFaultOfTheGraphIsTheCompilers) {
  FakeTimer timer("REDUCE");
  const auto tuned = Tune(Parsed("0 CONST [] weakint 1\n1 ADD [0]\n2 TUPLE [1]"), NullTarget(), Options(), {}, timer);
  ASSERT_FALSE(tuned.ok());
  EXPECT_EQ(DetailOf(tuned.status())->node(), 1u);
}

}  // namespace
}  // namespace kiln::compiler
