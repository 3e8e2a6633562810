#include "compiler/compile.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/target/gpu/architectures.h"

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
  return target;
}

v1::Graph SumAndAdd() {
  return Parsed(R"(
    0 CONST [] weakint 4
    1 CONST [] weakint 8
    2 STACK [0, 1]
    3 PARAM : float32 [2] slot=3
    4 REDUCE [3] ADD axes=(1)
    5 ADD [3, 4]
    6 TUPLE [5, 4]
  )");
}

// Remembers which passes ran, and stops where it is told.
class Watcher : public CompileObserver {
 public:
  explicit Watcher(std::string last = "") : last_(std::move(last)) {}
  void OnPass(const PassRecord& record) override {
    names.emplace_back(record.name);
    // The null target has no source to show.
    if (record.name != "llvm") {
      EXPECT_FALSE(record.text().empty());
    }
  }
  bool StopAfter(absl::string_view pass) const override { return pass == last_; }
  bool Saw(absl::string_view name) const { return std::find(names.begin(), names.end(), name) != names.end(); }

  std::vector<std::string> names;

 private:
  const std::string last_;
};

TEST(Compile, TheSignatureSaysHowToCall) {
  const auto executable = Compile(SumAndAdd(), NullTarget(), Options());
  ASSERT_TRUE(executable.ok()) << executable.status();
  const v1::Signature& signature = executable->signature();
  ASSERT_EQ(signature.parameters_size(), 1);
  EXPECT_EQ(signature.parameters(0).slot(), 3u);
  EXPECT_EQ(signature.parameters(0).bytes(), 4u * 4 * 8);
  EXPECT_FALSE(signature.parameters(0).written());
  ASSERT_EQ(signature.results_size(), 2);
  EXPECT_EQ(signature.results(0).bytes(), 4u * 4 * 8);
  EXPECT_EQ(signature.results(1).shape_size(), 2);
  EXPECT_EQ(signature.results(1).shape(1), 1);
}

TEST(Compile, AResultThatOthersReadIsComputedOnceWhereItIsGiven) {
  const auto executable = Compile(SumAndAdd(), NullTarget(), Options());
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ(executable->steps_size(), 2);  // the sum, then what adds it
  EXPECT_EQ(executable->arena_bytes(), 0u);
  EXPECT_EQ(executable->steps(0).operands(0).space(), v1::Operand::RESULT);
  EXPECT_EQ(executable->steps(0).operands(0).index(), 1u);
}

TEST(Compile, EqualInputsGiveEqualBytes) {
  const auto once = Compile(SumAndAdd(), NullTarget(), Options());
  const auto again = Compile(SumAndAdd(), NullTarget(), Options());
  ASSERT_TRUE(once.ok() && again.ok());
  EXPECT_EQ(once->SerializeAsString(), again->SerializeAsString());
}

TEST(Compile, EqualKernelsAreCompiledOnce) {
  const auto executable = Compile(Parsed(R"(
    0 CONST [] weakint 8
    1 STACK [0]
    2 PARAM : float32 [1] slot=0
    3 PARAM : float32 [1] slot=1
    4 EXP2 [2]
    5 EXP2 [3]
    6 TUPLE [4, 5]
  )"),
                                  NullTarget(), Options());
  ASSERT_TRUE(executable.ok()) << executable.status();
  EXPECT_EQ(executable->kernels_size(), 1);
  EXPECT_EQ(executable->steps_size(), 2);
}

TEST(Compile, PassesAreSeenInOrder) {
  Watcher watcher;
  ASSERT_TRUE(Compile(SumAndAdd(), NullTarget(), Options(), &watcher).ok());
  const std::vector<std::string> first = {"normalise",        "callify",        "resolve invalid", "take marks",
                                          "split reductions", "choose buffers", "choose layouts",  "rangeify",
                                          "chain kernels",    "memory plan"};
  ASSERT_GE(watcher.names.size(), first.size());
  EXPECT_EQ(std::vector<std::string>(watcher.names.begin(), watcher.names.begin() + 10), first);
  EXPECT_EQ(watcher.names.back(), "object");
}

// Parts, in the order in which they ended.
class Parts : public CompileObserver {
 public:
  void OnPass(const PassRecord&) override {}
  bool WantsRecords() const override { return false; }
  bool StopAfter(absl::string_view pass) const override { return pass == last; }
  void OnPart(CompilePart part, absl::Time begin, absl::Time end) override {
    EXPECT_LE(begin, end);
    EXPECT_LE(before_, begin) << "two at once";
    before_ = end;
    seen.push_back(part);
  }
  std::string last;
  std::vector<CompilePart> seen;

 private:
  absl::Time before_ = absl::InfinitePast();
};

TEST(Compile, PartsComeOneAfterTheOther) {
  using enum CompilePart;
  Parts all, some, none;
  ASSERT_TRUE(Compile(SumAndAdd(), NullTarget(), Options(), &all).ok());
  EXPECT_EQ(all.seen, std::vector<CompilePart>({kImport, kSchedule, kKernels, kCode}));
  some.last = "rangeify";
  EXPECT_FALSE(Compile(SumAndAdd(), NullTarget(), Options(), &some).ok());
  EXPECT_EQ(some.seen, std::vector<CompilePart>({kImport, kSchedule})) << "as far as it came";
  EXPECT_FALSE(Compile(v1::Graph(), NullTarget(), Options(), &none).ok());
  EXPECT_EQ(none.seen, std::vector<CompilePart>({kImport}));
}

TEST(Compile, StopsWhereTheObserverSays) {
  Watcher watcher("rangeify");
  const auto stopped = Compile(SumAndAdd(), NullTarget(), Options(), &watcher);
  EXPECT_EQ(stopped.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(watcher.names.back(), "rangeify");
}

TEST(Compile, WithoutAnObjectAllElseIsMade) {
  class Reader final : public Watcher {
    bool WantsObject() const override { return false; }
  };
  const v1::Target target = *GpuTarget("gfx942");
  Reader reader;
  auto without = Compile(SumAndAdd(), target, Options(), &reader);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_TRUE(without->object().empty());
  EXPECT_TRUE(reader.Saw("llvm"));
  EXPECT_FALSE(reader.Saw("object"));
  const auto with = Compile(SumAndAdd(), target, Options());
  ASSERT_TRUE(with.ok()) << with.status();
  without->set_object(with->object());
  EXPECT_EQ(without->SerializeAsString(), with->SerializeAsString());
}

TEST(Compile, ADisabledPassDoesNotRun) {
  Options options;
  options.disabled_passes = {"optimize"};
  Watcher watcher;
  ASSERT_TRUE(Compile(SumAndAdd(), NullTarget(), options, &watcher).ok());
  EXPECT_FALSE(watcher.Saw("optimize"));
  EXPECT_TRUE(watcher.Saw("simplify ranges"));
  EXPECT_NE(options.Fingerprint(), Options().Fingerprint());
}

TEST(Compile, LaterPassesNameTheClientsNodeAndTag) {
  const auto refused = Compile(Parsed(R"(
    0 CONST [] weakint 8
    1 STACK [0]
    2 PARAM : float32 [1] slot=0
    3 EXP2 [2]
    4 STORE [3, 2] @"my store"
    5 SINK [4]
  )"),
                               NullTarget(), Options());
  const auto detail = DetailOf(refused.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->code(), v1::BAD_ARGUMENT);
  EXPECT_EQ(detail->node(), 4u);
  EXPECT_EQ(detail->tag(), "my store");
}

TEST(Compile, ARunThatWouldTakeTooLongIsRefusedWithItsEstimate) {
  Options options;
  options.limits.max_run_seconds = 1;
  v1::Target target = NullTarget();
  const auto product = [](int64_t size) {
    return Parsed(absl::StrCat("0 CONST [] weakint ", size, R"(
    1 STACK [0, 0]
    2 PARAM : float32 [1] slot=0
    3 CONST [] weakint 1
    4 STACK [0, 0, 3]
    5 RESHAPE [2, 4]
    6 STACK [3, 0, 0]
    7 RESHAPE [2, 6]
    8 STACK [0, 0, 0]
    9 EXPAND [5, 8]
    10 EXPAND [7, 8]
    11 MUL [9, 10]
    12 REDUCE [11] ADD axes=(1)
    13 TUPLE [12]
  )"));
  };
  EXPECT_TRUE(Compile(product(256), target, options).ok());
  const auto refused = Compile(product(16384), target, options);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  const auto detail = DetailOf(refused.status());
  ASSERT_TRUE(detail.has_value()) << refused.status();
  EXPECT_EQ(detail->code(), v1::GRAPH_TOO_LARGE);
  EXPECT_EQ(detail->limit(), "seconds of one run");
  EXPECT_EQ(detail->limit_value(), 1u);
  // Some 10^13 operations.
  EXPECT_GT(detail->used(), 100u);
  EXPECT_LT(detail->used(), 100'000u);
  // More cores do it sooner.
  target.mutable_tuning()->set_cores(64);
  const auto shared = DetailOf(Compile(product(16384), target, options).status());
  ASSERT_TRUE(shared.has_value());
  EXPECT_LT(shared->used(), detail->used() / 32);
}

TEST(Compile, WorkThatCannotBeStoppedIsRefused) {
  // A GPU's kernels are whole: each of their items runs to its end.
  Options item;
  item.limits.max_item_work = 10;
  EXPECT_TRUE(Compile(SumAndAdd(), NullTarget(), item).ok());
  for (const char* gpu : {"sm_90a", "gfx942"}) {
    const auto whole = Compile(SumAndAdd(), *GpuTarget(gpu), item);
    ASSERT_TRUE(DetailOf(whole.status()).has_value()) << whole.status();
    EXPECT_EQ(DetailOf(whole.status())->code(), v1::GRAPH_TOO_LARGE);
    EXPECT_EQ(DetailOf(whole.status())->limit(), "operations of one work item");
  }
}

}  // namespace
}  // namespace kiln::compiler
