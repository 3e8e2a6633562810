#include "server/compile_worker/job.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"
#include "kiln/v1/compile_job.pb.h"
#include "server/compile_worker/job_pieces.h"

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

v1::CompileJob Together(JobPieces& pieces) {
  std::string bytes;
  pieces.Begin();
  while (const v1::CompileJob* piece = pieces.Next()) piece->AppendToString(&bytes);
  v1::CompileJob job;
  EXPECT_TRUE(job.ParseFromString(bytes));
  return job;
}

v1::Graph GraphOf(uint32_t nodes) {
  v1::Graph graph;
  graph.set_dialect(v1::LEGACY_2025);
  for (uint32_t i = 0; i < nodes; ++i) graph.add_nodes()->add_src(i);
  return graph;
}

TEST(JobPieces, AreTheJobAndLeaveTheGraphToItsOwner) {
  for (const uint32_t nodes : {0u, 1u, 2048u, 5000u}) {
    const v1::Graph graph = GraphOf(nodes);
    const std::string before = graph.SerializeAsString();
    {
      JobPieces pieces(graph, {}, {}, nullptr);
      EXPECT_EQ(&pieces.graph(), &graph);
      for (int time = 0; time < 2; ++time)
        EXPECT_EQ(Together(pieces).SerializeAsString(), ToJob(graph, {}, {}, nullptr).SerializeAsString());
    }
    EXPECT_EQ(graph.SerializeAsString(), before);
  }
}

TEST(JobPieces, AreAGradientsJob) {
  v1::GradientRequest request;
  *request.mutable_graph() = GraphOf(5000);
  request.set_result(1);
  request.add_wrt_slot(2);
  request.add_wrt_slot(3);
  request.set_cotangent_slot(0);
  request.set_include_results(true);
  const compiler::Limits limits;
  JobPieces pieces(request, limits);
  EXPECT_EQ(Together(pieces).SerializeAsString(), ToJob(request, limits).SerializeAsString());
  // Who adds one sets it above, and in job_pieces.cc.
  EXPECT_EQ(v1::GradientRequest::descriptor()->field_count(), 5);
  EXPECT_EQ(v1::Graph::descriptor()->field_count(), 2);
}

TEST(JobPieces, AreAStepOfASearch) {
  v1::Graph kernel = GraphOf(5000);
  v1::Target target;
  target.set_kind(v1::Target::NULL_TARGET);
  compiler::Limits limits;
  limits.max_nodes = 17;
  v1::ChooseJob choose;
  choose.set_from("FUSE(0)");
  choose.set_most(3);
  JobPieces pieces(kernel, target, limits, choose);
  EXPECT_EQ(Together(pieces).SerializeAsString(), ToJob(kernel, target, limits, choose).SerializeAsString());
  EXPECT_EQ(v1::ChooseJob::descriptor()->field_count(), 2);  // each is in its name, in job_pieces.cc
  const auto name = [](JobPieces& of) { return *of.Name([] { return absl::OkStatus(); }); };
  choose.set_most(4);
  JobPieces other(kernel, target, limits, choose);
  EXPECT_NE(name(pieces), name(other));
}

TEST(CompileJob, AStepOfASearchIsDoneHereAndBack) {
  v1::ChooseJob choose;
  choose.set_from("FUSE(0)");
  choose.set_most(2);
  compiler::Limits limits;
  limits.max_nodes = 17;
  std::vector<std::string> next = {"a", "b"};
  const compiler::ChooseFn fake = [&](const v1::Graph& kernel, const v1::Target&, const compiler::Limits& most,
                                      const std::string& from, uint32_t count, const std::function<bool()>&) {
    EXPECT_EQ(kernel.nodes_size(), 3);
    EXPECT_EQ(most.max_nodes, 17u);
    EXPECT_EQ(from, "FUSE(0)");
    EXPECT_EQ(count, 2u);
    return absl::StatusOr<compiler::Choices>(compiler::Choices{true, next});
  };
  const auto done = [&](const CompilerInProcess& compiler) {
    return ChoicesFromResult(RunJob(ToJob(GraphOf(3), {}, limits, choose), compiler), 2);
  };
  const auto choices = done({nullptr, nullptr, fake});
  ASSERT_TRUE(choices.ok()) << choices.status();
  EXPECT_TRUE(choices->may_thread);
  EXPECT_EQ(choices->next, next);
  EXPECT_EQ(DetailOf(done({nullptr, nullptr}).status())->code(), v1::NOT_IMPLEMENTED);
  // Too many, or one that is too long, is no answer.
  next.push_back("c");
  EXPECT_EQ(DetailOf(done({nullptr, nullptr, fake}).status())->code(), v1::COMPILER_FAULT);
  next = {std::string(1 << 20, 'x')};
  EXPECT_EQ(DetailOf(done({nullptr, nullptr, fake}).status())->code(), v1::COMPILER_FAULT);
}

TEST(JobPieces, HaveAName) {
  const auto name = [](const v1::Graph& graph, const compiler::Options& options) {
    JobPieces pieces(graph, {}, options, nullptr);
    return *pieces.Name([] { return absl::OkStatus(); });
  };
  v1::Graph graph = GraphOf(5000);
  const Digest first = name(graph, {});
  EXPECT_EQ(name(graph, {}), first);
  EXPECT_NE(name(graph, {.fast_math = true}), first);
  graph.mutable_nodes(4999)->set_tag("another");
  EXPECT_NE(name(graph, {}), first);
  JobPieces pieces(graph, {}, {}, nullptr);
  EXPECT_TRUE(absl::IsCancelled(pieces.Name([] { return absl::CancelledError("gone"); }).status()));
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
