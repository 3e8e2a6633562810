#include "server/compile_worker/job.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/error.h"

namespace kiln::server {
namespace {

static_assert(std::is_trivially_copyable_v<compiler::Limits>, "it goes as it lies in memory");

// Of a schedule as text: two dozen OptOps take a tenth.
constexpr size_t kMaxScheduleBytes = 16384;

// SteadyNow() begins anew in each program, this does not: how far the one is ahead of the other.
absl::Duration AheadOfMonotonic() {
  return SteadyNow() - absl::UnixEpoch() - absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

// Reports each part, and of a job that is watched each pass, with its text.
class Reporter final : public compiler::CompileObserver {
 public:
  Reporter(const v1::CompileJob& job, v1::CompileJobResult& result) : job_(job), result_(result) {}

  void OnPass(const compiler::PassRecord& record) override {
    v1::PassReport& report = *result_.add_passes();
    report.set_name(std::string(record.name));
    report.set_kernel(std::string(record.kernel));
    report.set_micros(record.micros);
    report.set_nodes(record.nodes);
    const auto& texts = job_.texts();
    const bool wanted = texts.empty() || std::find(texts.begin(), texts.end(), record.name) != texts.end();
    if (wanted && record.text) report.set_text(record.text());
  }
  void OnPart(compiler::CompilePart part, absl::Time begin, absl::Time end) override {
    v1::PartReport& report = *result_.add_parts();
    report.set_part(static_cast<uint32_t>(part));
    report.set_begin_ns(absl::ToUnixNanos(begin - ahead_));
    report.set_end_ns(absl::ToUnixNanos(end - ahead_));
  }
  bool WantsRecords() const override { return job_.watched(); }
  bool WantsAssembly() const override { return job_.wants_assembly(); }
  bool WantsObject() const override { return job_.wants_object(); }

 private:
  const v1::CompileJob& job_;
  v1::CompileJobResult& result_;
  const absl::Duration ahead_ = AheadOfMonotonic();
};

// A worker may say anything, as often as it likes.
void NoteStages(const v1::CompileJobResult& result, absl::Time begin, CompileStages& stages) {
  const absl::Duration ahead = AheadOfMonotonic();
  const absl::Time now = SteadyNow();
  const auto in_time = [&](int64_t nanos) { return std::clamp(absl::FromUnixNanos(nanos) + ahead, begin, now); };
  const auto note = [&](const v1::PartReport& report) {
    const auto part = static_cast<compiler::CompilePart>(report.part());
    stages.Add(StageOf(part), in_time(report.begin_ns()), in_time(report.end_ns()));
  };
  const v1::PartReport* last = nullptr;  // of those that are too many
  size_t parts = 0;
  for (const v1::PartReport& report : result.parts()) {
    if (report.part() >= compiler::kCompileParts) continue;
    // What came before the first of them is the way there.
    if (++parts == 1) stages.Add(CompileStage::kWorker, begin, in_time(report.begin_ns()));
    if (parts <= CompileStages::kMost) {
      note(report);
    } else {
      last = &report;
    }
  }
  if (last != nullptr) note(*last);
  // It failed on the way, or says nothing.
  if (parts == 0) stages.Add(CompileStage::kWorker, begin, now);
}

v1::CompileJobFailure ToFailure(const absl::Status& status) {
  v1::CompileJobFailure failure;
  failure.set_status(static_cast<int>(status.code()));
  failure.set_message(std::string(status.message()));
  if (const auto detail = DetailOf(status); detail.has_value()) *failure.mutable_detail() = *detail;
  return failure;
}

// Of a result that is no answer to what was asked.
absl::Status FailureOf(const v1::CompileJobResult& result) {
  if (!result.has_failure()) return CompilerFault("gave no answer");
  const v1::CompileJobFailure& failure = result.failure();
  if (failure.has_detail() && failure.detail().code() != v1::ERROR_CODE_UNSPECIFIED)
    return MakeError(failure.detail(), failure.message());
  const auto code = static_cast<absl::StatusCode>(failure.status());
  if (code == absl::StatusCode::kOk) return CompilerFault("failed without a reason");
  return absl::Status(code, failure.message());
}

}  // namespace

v1::CompileJob ToJob(const v1::Graph& graph, const v1::Target& target, const compiler::Options& options,
                     const compiler::CompileObserver* observer) {
  v1::CompileJob job;
  *job.mutable_graph() = graph;
  *job.mutable_target() = target;
  job.set_watched(observer != nullptr);
  if (observer != nullptr) {
    for (std::string& pass : observer->texts()) job.add_texts(std::move(pass));
  }
  job.set_wants_assembly(observer != nullptr && observer->WantsAssembly());
  job.set_wants_object(observer == nullptr || observer->WantsObject());
  // A field that is added to Options is missing here, and this does not compile.
  const auto& [contraction, deterministic, fast_math, strict, guard_arrays, beam, beam_budget_ms, constants, schedules,
               disabled_passes, limits] = options;
  v1::CompileJobOptions& to = *job.mutable_options();
  to.set_contraction(contraction);
  to.set_deterministic(deterministic);
  to.set_fast_math(fast_math);
  to.set_strict(strict);
  to.set_guard_arrays(guard_arrays);
  to.set_beam(beam);
  to.set_beam_budget_ms(beam_budget_ms);
  to.mutable_constants()->Add(constants.begin(), constants.end());
  to.set_has_schedules(schedules != nullptr);
  if (schedules != nullptr) to.mutable_schedules()->insert(schedules->begin(), schedules->end());
  to.mutable_disabled_passes()->Add(disabled_passes.begin(), disabled_passes.end());
  to.set_limits(&limits, sizeof(limits));
  return job;
}

v1::CompileJob ToJob(const v1::GradientRequest& request, const compiler::Limits& limits) {
  v1::CompileJob job;
  *job.mutable_gradient() = request;
  job.mutable_options()->set_limits(&limits, sizeof(limits));
  return job;
}

v1::CompileJob ToJob(const v1::Graph& kernel, const v1::Target& target, const compiler::Limits& limits,
                     const v1::ChooseJob& choose) {
  v1::CompileJob job;
  *job.mutable_graph() = kernel;
  *job.mutable_target() = target;
  *job.mutable_choose() = choose;
  job.mutable_options()->set_limits(&limits, sizeof(limits));
  return job;
}

absl::StatusOr<compiler::Options> OptionsOf(const v1::CompileJob& job) {
  const v1::CompileJobOptions& from = job.options();
  compiler::Options options;
  options.contraction = from.contraction();
  options.deterministic = from.deterministic();
  options.fast_math = from.fast_math();
  options.strict = from.strict();
  options.guard_arrays = from.guard_arrays();
  options.beam = from.beam();
  options.beam_budget_ms = from.beam_budget_ms();
  options.constants.assign(from.constants().begin(), from.constants().end());
  if (from.has_schedules()) {
    options.schedules = std::make_shared<const compiler::ScheduleMap>(from.schedules().begin(), from.schedules().end());
  }
  options.disabled_passes.assign(from.disabled_passes().begin(), from.disabled_passes().end());
  if (from.limits().size() != sizeof(options.limits)) return absl::InvalidArgumentError("limits of another build");
  std::memcpy(&options.limits, from.limits().data(), sizeof(options.limits));
  return options;
}

v1::CompileJobResult RunJob(const v1::CompileJob& job, const CompilerInProcess& compiler) {
  v1::CompileJobResult result;
  const auto options = OptionsOf(job);
  if (!options.ok()) {
    *result.mutable_failure() = ToFailure(options.status());
    return result;
  }
  if (job.has_gradient()) {
    auto gradient = compiler.gradient(job.gradient(), options->limits);
    if (gradient.ok()) {
      *result.mutable_gradient() = *std::move(gradient);
    } else {
      *result.mutable_failure() = ToFailure(gradient.status());
    }
    return result;
  }
  if (job.has_choose()) {
    if (compiler.choose == nullptr) {
      *result.mutable_failure() = ToFailure(MakeError(v1::NOT_IMPLEMENTED, "this program searches no schedules"));
      return result;
    }
    auto choices = compiler.choose(job.graph(), job.target(), options->limits, job.choose().from(), job.choose().most(),
                                   [] { return false; });  // who wants no more kills this process
    if (choices.ok()) {
      result.mutable_choices()->set_may_thread(choices->may_thread);
      for (std::string& schedule : choices->next) result.mutable_choices()->add_next(std::move(schedule));
    } else {
      *result.mutable_failure() = ToFailure(choices.status());
    }
    return result;
  }
  Reporter reporter(job, result);
  auto program = compiler.compile(job.graph(), job.target(), *options, &reporter);
  if (!program.ok()) {
    *result.mutable_failure() = ToFailure(program.status());
  } else if (auto* one = std::get_if<v1::Executable>(&*program)) {
    *result.mutable_executable() = std::move(*one);
  } else {
    *result.mutable_several() = std::get<v1::MultiProgram>(*std::move(program));
  }
  return result;
}

absl::Status CompilerFault(absl::string_view what) {
  return MakeError(v1::COMPILER_FAULT, absl::StrCat("the process that compiled this graph ", what,
                                                    "; nothing else is affected. Please report it, with the graph"));
}

absl::StatusOr<CompiledProgram> FromResult(v1::CompileJobResult result, compiler::CompileObserver* observer,
                                           CompileStages* stages, absl::Time begin) {
  if (stages != nullptr) NoteStages(result, begin, *stages);
  if (observer != nullptr) {
    for (v1::PassReport& report : *result.mutable_passes()) {
      const std::string text = std::move(*report.mutable_text());
      observer->OnPass({report.name(), report.kernel(), report.micros(), report.nodes(), [&text] { return text; }});
    }
  }
  if (result.has_executable()) return CompiledProgram(std::move(*result.mutable_executable()));
  if (result.has_several()) return CompiledProgram(std::move(*result.mutable_several()));
  return FailureOf(result);
}

absl::StatusOr<v1::GradientResponse> GradientFromResult(v1::CompileJobResult result) {
  if (result.has_gradient()) return std::move(*result.mutable_gradient());
  return FailureOf(result);
}

absl::StatusOr<compiler::Choices> ChoicesFromResult(v1::CompileJobResult result, uint32_t most) {
  if (!result.has_choices()) return FailureOf(result);
  v1::ScheduleChoices& choices = *result.mutable_choices();
  if (static_cast<size_t>(choices.next_size()) > most) return CompilerFault("gave more schedules than it may");
  for (const std::string& schedule : choices.next()) {
    if (schedule.size() > kMaxScheduleBytes) return CompilerFault("gave a longer schedule than there is");
  }
  return compiler::Choices{choices.may_thread(), {choices.next().begin(), choices.next().end()}};
}

}  // namespace kiln::server
