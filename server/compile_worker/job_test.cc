#include "server/compile_worker/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "kiln/v1/compile_job.pb.h"

namespace kiln::server {
namespace {

TEST(CompileJob, OptionsCrossUnchanged) {
  compiler::Options options;
  options.contraction = false;
  options.deterministic = options.fast_math = options.strict = options.guard_arrays = true;
  options.beam = 3;
  options.beam_budget_ms = 4;
  options.constants = {1, 5};
  options.schedules = std::make_shared<const compiler::ScheduleMap>(compiler::ScheduleMap{{"k", "THREAD(0)"}});
  options.disabled_passes = {"scan"};
  options.limits.max_nodes = 17;
  const auto back = OptionsOf(ToJob({}, {}, options, nullptr));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(back->Fingerprint(), options.Fingerprint());
  EXPECT_EQ(back->limits.max_nodes, 17u);
  EXPECT_EQ(*back->schedules, *options.schedules);
  EXPECT_EQ(back->beam_budget_ms, 4u);
  EXPECT_EQ(OptionsOf(ToJob({}, {}, {}, nullptr))->schedules, nullptr);
  v1::CompileJob damaged;
  damaged.mutable_options()->set_limits("x");
  EXPECT_FALSE(OptionsOf(damaged).ok());
}

TEST(CompileJob, TextsThatNobodyReadsAreNotMade) {
  class Watcher final : public compiler::CompileObserver {
   public:
    explicit Watcher(std::vector<std::string> texts) : texts_(std::move(texts)) {}
    void OnPass(const compiler::PassRecord& record) override { absl::StrAppend(&heard, record.name, record.text()); }
    std::vector<std::string> texts() const override { return texts_; }
    std::string heard;

   private:
    const std::vector<std::string> texts_;
  };
  int made = 0;
  const auto compile = [&](const v1::Graph&, const v1::Target&, const compiler::Options&,
                           compiler::CompileObserver* observer) -> absl::StatusOr<CompiledProgram> {
    for (const char* pass : {"first", "second"}) {
      observer->OnPass({pass, "", 0, 0, [&] { return absl::StrCat("!", ++made, ";"); }});
    }
    return CompiledProgram(v1::Executable());
  };
  Watcher one({"second"}), all({});
  for (Watcher* watcher : {&one, &all}) {
    EXPECT_TRUE(FromResult(RunJob(ToJob({}, {}, {}, watcher), {compile, nullptr}), watcher).ok());
  }
  EXPECT_EQ(one.heard, "firstsecond!1;");
  EXPECT_EQ(all.heard, "first!2;second!3;");
}

TEST(LentJob, HasTheGraphAndLeavesItToItsOwner) {
  v1::Graph graph;
  for (uint32_t i = 0; i < 100; ++i) graph.add_nodes()->add_src(i);
  const std::string before = graph.SerializeAsString();
  {
    const LentJob lent(graph, {}, {}, nullptr);
    EXPECT_EQ(&lent.job().graph(), &graph);
    EXPECT_EQ(lent.job().SerializeAsString(), ToJob(graph, {}, {}, nullptr).SerializeAsString());
  }
  EXPECT_EQ(graph.SerializeAsString(), before);
}

// What the compiler says of its parts comes back in the server's own time, also of a job that nobody watches.
TEST(CompileJob, StagesCome) {
  using compiler::CompilePart;
  const absl::Time begin = SteadyNow();
  const auto compile = [&](const v1::Graph&, const v1::Target&, const compiler::Options&,
                           compiler::CompileObserver* observer) -> absl::StatusOr<CompiledProgram> {
    EXPECT_FALSE(observer->WantsRecords());
    absl::Time at = SteadyNow();
    for (const CompilePart part : {CompilePart::kImport, CompilePart::kCode}) {
      const absl::Time then = std::exchange(at, SteadyNow());
      observer->OnPart(part, then, at);
    }
    return CompiledProgram(v1::Executable());
  };
  CompileStages stages;
  ASSERT_TRUE(FromResult(RunJob(ToJob({}, {}, {}, nullptr), {compile, nullptr}), nullptr, &stages, begin).ok());
  ASSERT_EQ(stages.all().size(), 3u);
  const auto expected = {CompileStage::kWorker, CompileStage::kImport, CompileStage::kCode};
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), stages.all().begin(),
                         [](CompileStage stage, const StageTime& time) { return time.stage == stage; }));
  EXPECT_EQ(stages.all()[0].time.begin_ns, absl::ToUnixNanos(begin));
  EXPECT_LE(stages.all()[2].time.end_ns, absl::ToUnixNanos(SteadyNow()));
}

TEST(CompileJob, StagesOfAFailureCome) {
  using compiler::CompilePart;
  const absl::Time begin = SteadyNow();
  int segments = 1;
  const auto compile = [&](const v1::Graph&, const v1::Target&, const compiler::Options&,
                           compiler::CompileObserver* observer) -> absl::StatusOr<CompiledProgram> {
    for (int i = 0; i < segments; ++i) observer->OnPart(CompilePart::kSchedule, SteadyNow(), SteadyNow());
    observer->OnPart(CompilePart::kKernels, SteadyNow(), SteadyNow());
    return MakeError(v1::GRAPH_TOO_LARGE, "no");
  };
  const auto run = [&](CompileStages& stages) {
    return FromResult(RunJob(ToJob({}, {}, {}, nullptr), {compile, nullptr}), nullptr, &stages, begin).status();
  };
  CompileStages stages;
  EXPECT_EQ(DetailOf(run(stages)).value_or(v1::ErrorDetail()).code(), v1::GRAPH_TOO_LARGE);
  ASSERT_EQ(stages.all().size(), 3u);
  EXPECT_EQ(stages.all()[0].stage, CompileStage::kWorker);
  EXPECT_EQ(stages.all()[1].stage, CompileStage::kSchedule);
  EXPECT_EQ(stages.all()[2].stage, CompileStage::kKernels);
  // Of many, where it failed is the last.
  segments = 100;
  CompileStages many;
  EXPECT_FALSE(run(many).ok());
  EXPECT_EQ(many.all().size(), CompileStages::kMost);
  EXPECT_EQ(many.all().back().stage, CompileStage::kKernels);
  // Of one that got to none, all was the way there.
  CompileStages none;
  EXPECT_FALSE(FromResult(v1::CompileJobResult(), nullptr, &none, begin).ok());
  ASSERT_EQ(none.all().size(), 1u);
  EXPECT_EQ(none.all()[0].stage, CompileStage::kWorker);
  EXPECT_EQ(none.all()[0].time.begin_ns, absl::ToUnixNanos(begin));
}

// A worker that is not the compiler any more may say what it likes of them.
TEST(CompileJob, StagesThatAreNoneAreNotTaken) {
  const absl::Time begin = SteadyNow();
  v1::CompileJobResult result;
  result.mutable_executable();
  const auto add = [&](uint32_t part, int64_t begin_ns, int64_t end_ns) {
    v1::PartReport& report = *result.add_parts();
    report.set_part(part);
    report.set_begin_ns(begin_ns);
    report.set_end_ns(end_ns);
  };
  add(4, 0, 0);  // there is none
  add(UINT32_MAX, 0, 0);
  add(3, INT64_MAX, INT64_MIN);
  for (int i = 0; i < 100'000; ++i) add(i % 4, INT64_MIN, INT64_MAX);
  CompileStages stages;
  ASSERT_TRUE(FromResult(std::move(result), nullptr, &stages, begin).ok());
  const absl::Time now = SteadyNow();
  EXPECT_EQ(stages.all().size(), CompileStages::kMost);
  int64_t before = absl::ToUnixNanos(begin);
  for (const StageTime& stage : stages.all()) {
    EXPECT_LE(before, stage.time.begin_ns);
    EXPECT_LE(stage.time.begin_ns, stage.time.end_ns);
    before = stage.time.end_ns;
  }
  EXPECT_LE(before, absl::ToUnixNanos(now));
  EXPECT_EQ(stages.all()[1].stage, CompileStage::kCode);
}

}  // namespace
}  // namespace kiln::server
