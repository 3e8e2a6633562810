#include "compiler/search/tune.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "base/graph/graph_text.h"
#include "compiler/compile.h"
#include "compiler/kernel/dots.h"
#include "compiler/opt/requested.h"
#include "compiler/opt/schedule_text.h"
#include "compiler/search/choose.h"
#include "compiler/search/neighbours.h"

namespace kiln::compiler {
namespace {

// Kernels that take less of the program's time than this are not worth a search.
constexpr double kMinShare = 0.005;

// The plain loops of each kernel, by its symbol, as text.
class PlainKernels final : public CompileObserver {
 public:
  void OnPass(const PassRecord& record) override {
    if (record.name == "simplify ranges") loops[std::string(record.kernel)] = record.text();
  }
  std::vector<std::string> texts() const override { return {"simplify ranges"}; }
  absl::flat_hash_map<std::string, std::string> loops;
};

// Ends a compilation whose instructions have been seen before. Safe from several
// threads, each with one of its own.
class SeenCode {
 public:
  bool IsNew(std::string code) {
    absl::MutexLock lock(&mutex_);
    return codes_.insert(std::move(code)).second;
  }

 private:
  absl::Mutex mutex_;
  absl::flat_hash_set<std::string> codes_;
};

class StopAtSeenCode final : public CompileObserver {
 public:
  explicit StopAtSeenCode(SeenCode& seen) : seen_(seen) {}
  void OnPass(const PassRecord& record) override {
    if (record.name == "linearize") known_ = !seen_.IsNew(record.text());
  }
  std::vector<std::string> texts() const override { return {"linearize"}; }
  bool StopAfter(absl::string_view pass) const override { return pass == "linearize" && known_; }
  bool known() const { return known_; }

 private:
  SeenCode& seen_;
  bool known_ = false;
};

// A kernel of the program, and what is known of it.
struct Kernel {
  uint32_t number = 0;
  std::string name;
  std::string symbol;
  v1::Graph graph;  // its plain loops
  Schedule usual;
  double calls = 0;
  double micros = 0;  // of one run, as the rules have it
  Trial trial;        // the same, compiled
};

Options CandidateOptions(Options options) {
  options.beam = 0;
  options.schedules = nullptr;
  options.constants.clear();  // slots of the program, which those of a kernel alone are not
  return options;
}

class Tuner {
 public:
  Tuner(const v1::Graph& graph, const v1::Target& target, const Options& options, const TuneOptions& tuning,
        KernelTimer& timer)
      : graph_(graph),
        target_(AllowedTarget(target, options.fast_math)),
        constants_(options.constants),
        options_(CandidateOptions(options)),
        tuning_(tuning),
        timer_(timer) {}

  absl::StatusOr<Tuned> Run() {
    PlainKernels plain;
    KILN_ASSIGN_OR_RETURN(tuned_.executable, CompileBy(graph_, options_, &plain));
    KILN_ASSIGN_OR_RETURN(std::vector<Kernel> kernels, KernelsOf(plain));
    for (size_t begin = 0; begin < kernels.size(); begin += tuning_.batch) {
      KILN_RETURN_IF_ERROR(timer_.Wanted());
      if (timer_.LeftMicros() <= 0) tuned_.out_of_time = true;
      if (!tuned_.out_of_time) TimeUsual(absl::MakeSpan(kernels).subspan(begin, tuning_.batch));
    }
    std::stable_sort(kernels.begin(), kernels.end(),
                     [](const Kernel& a, const Kernel& b) { return a.calls * a.micros > b.calls * b.micros; });
    double rest = 0;
    for (const Kernel& kernel : kernels) rest += kernel.calls * kernel.micros;
    const double all = rest;
    for (Kernel& kernel : kernels) {
      KILN_RETURN_IF_ERROR(timer_.Wanted());
      const double share = kernel.calls * kernel.micros;
      if (kernel.micros > 0 && share >= kMinShare * all) {
        Search(kernel, timer_.LeftMicros() * (1 - share / rest));
      } else {
        Took(kernel, kernel.micros, kernel.micros);
      }
      rest = std::max(rest - share, share * 1e-9);
    }
    KILN_RETURN_IF_ERROR(timer_.Wanted());
    if (found_->empty() && constants_.empty()) return std::move(tuned_);
    Options with = options_;
    with.constants = constants_;
    with.schedules = std::move(found_);
    KILN_ASSIGN_OR_RETURN(tuned_.executable, CompileBy(graph_, with, nullptr));
    return std::move(tuned_);
  }

 private:
  absl::StatusOr<v1::Executable> CompileBy(const v1::Graph& graph, const Options& options,
                                           CompileObserver* observer) const {
    return tuning_.compile ? tuning_.compile(graph, target_, options, observer)
                           : Compile(graph, target_, options, observer);
  }

  void Took(const Kernel& kernel, double first, double best) {
    if (first <= 0) return;  // it could not be timed
    tuned_.kernels.push_back({kernel.number, static_cast<uint32_t>(kernel.calls), first, best});
    tuned_.first_micros += kernel.calls * first;
    tuned_.best_micros += kernel.calls * best;
  }

  void Report(const Kernel& kernel, const std::string& schedule, const Timing& timing, double best) {
    ++tuned_.candidates;
    if (!tuning_.progress) return;
    TuneEvent event;
    event.kernel = kernel.number;
    event.kernels = static_cast<uint32_t>(tuned_.executable.kernels_size());
    event.name = kernel.name;
    event.schedule = schedule;
    event.micros = timing.micros;
    event.fault = timing.fault;
    event.best_micros = best;
    event.first_micros = kernel.micros;
    tuning_.progress(event);
  }

  // Of schedules that may be applied to the kernel; at most `most` of those that are one step from this one.
  absl::StatusOr<Choices> ChooseBy(
      const Kernel& kernel, const Schedule& from, uint32_t most,
      const std::function<bool()>& stop = [] { return false; }) const {
    return tuning_.choose ? tuning_.choose(kernel.graph, target_, options_.limits, ToString(from), most, stop)
                          : Choose(kernel.graph, target_, options_.limits, ToString(from), most, stop);
  }

  // The kernel is not at fault: another search may find out what this one could not.
  static bool MayPass(const absl::Status& status) {
    const auto detail = DetailOf(status);
    if (!detail.has_value()) return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status);
    const v1::ErrorCode code = detail->code();
    return code == v1::OUT_OF_MEMORY || code == v1::INTERNAL_FAULT || code == v1::CALL_CANCELLED;
  }

  // Those that take OptOps.
  absl::StatusOr<std::vector<Kernel>> KernelsOf(const PlainKernels& plain) {
    std::vector<Kernel> kernels;
    const v1::Executable& executable = tuned_.executable;
    for (int i = 0; i < executable.kernels_size(); ++i) {
      const v1::Kernel& made = executable.kernels(i);
      const auto text = plain.loops.find(made.symbol());
      if (text == plain.loops.end() || made.schedule().empty()) continue;
      Kernel kernel;
      kernel.number = static_cast<uint32_t>(i);
      kernel.name = made.name();
      kernel.symbol = made.symbol();
      kernel.calls = static_cast<double>(
          std::count_if(executable.steps().begin(), executable.steps().end(),
                        [&](const v1::Step& step) { return step.kernel() == static_cast<uint32_t>(i); }));
      const auto usual = ParseSchedule(made.schedule());
      auto graph = ParseGraph(text->second);
      if (!usual.ok() || !graph.ok()) continue;  // it stays as it is
      kernel.usual = *usual;
      kernel.graph = *std::move(graph);
      KILN_RETURN_IF_ERROR(timer_.Wanted());
      if (timer_.LeftMicros() <= 0) {
        tuned_.out_of_time = true;
        break;
      }
      const absl::Status takes = ChooseBy(kernel, {}, 0).status();
      if (MayPass(takes)) return takes;
      if (takes.ok()) kernels.push_back(std::move(kernel));
    }
    return kernels;
  }

  // The kernel alone, as `schedule` says.
  Trial CompileOne(const Kernel& kernel, const Schedule& schedule, SeenCode& seen) const {
    if (absl::Status wanted = timer_.Wanted(); !wanted.ok()) return {std::string(wanted.message()), nullptr};
    v1::Graph graph = kernel.graph;
    v1::KernelInfo& info = *graph.mutable_nodes(graph.nodes_size() - 1)->mutable_kernel();
    for (const OptOp& opt : schedule) {
      const OptArg request = ToRequest(opt);
      v1::OptOp& sent = *info.add_opts();
      sent.set_kind(static_cast<v1::OptOp::Kind>(request.kind));
      sent.set_axis(request.axis);
      sent.mutable_arg()->Add(request.arg.begin(), request.arg.end());
    }
    if (schedule.empty()) info.add_opts()->set_kind(v1::OptOp::NOLOCALS);  // none at all would be the compiler's choice
    StopAtSeenCode observer(seen);
    auto executable = CompileBy(graph, options_, &observer);
    if (observer.known()) return {"the same instructions as another schedule's", nullptr};
    if (!executable.ok()) return {std::string(executable.status().message()), nullptr};
    auto shared = std::make_shared<const v1::Executable>(*std::move(executable));
    return {"", [this, shared](double limit) { return timer_.Time(*shared, limit); }};
  }

  std::vector<Trial> CompileAll(const Kernel& kernel, absl::Span<const Schedule> schedules, SeenCode& seen) {
    std::vector<Trial> trials(schedules.size());
    std::vector<absl::AnyInvocable<void()>> jobs;
    for (size_t i = 0; i < schedules.size(); ++i)
      jobs.emplace_back([&, i] { trials[i] = CompileOne(kernel, schedules[i], seen); });
    timer_.InParallel(std::move(jobs));
    return trials;
  }

  // What `kernels` take as the rules have them.
  void TimeUsual(absl::Span<Kernel> kernels) {
    std::vector<absl::AnyInvocable<void()>> jobs;
    for (Kernel& kernel : kernels) {
      jobs.emplace_back([this, &kernel] {
        SeenCode seen;
        kernel.trial = CompileOne(kernel, kernel.usual, seen);
      });
    }
    timer_.InParallel(std::move(jobs));
    for (Kernel& kernel : kernels) {
      Timing timing{0, kernel.trial.fault};
      if (timing.fault.empty()) timing = kernel.trial.time(std::numeric_limits<double>::infinity());
      kernel.micros = timing.fault.empty() ? timing.micros : 0;
      if (!timing.fault.empty()) Report(kernel, ToString(kernel.usual), timing, 0);
    }
  }

  // Until no more than `keep` of the time is left.
  void Search(Kernel& kernel, double keep) {
    SeenCode seen;
    BeamInput input;
    input.compile = [&](absl::Span<const Schedule> schedules) { return CompileAll(kernel, schedules, seen); };
    input.usual = kernel.trial;
    input.usual_schedule = WithoutThreads(kernel.usual);
    input.out_of_time = [&] { return timer_.LeftMicros() <= keep || !timer_.Wanted().ok(); };
    // A schedule of which nobody says what may follow is followed by nothing.
    input.next = [&](const Schedule& from) {
      std::vector<Schedule> next;
      const auto choices = ChooseBy(kernel, from, kMaxNeighbours, input.out_of_time);
      for (const std::string& text : choices.ok() ? choices->next : std::vector<std::string>()) {
        if (auto schedule = ParseSchedule(text); schedule.ok()) next.push_back(*std::move(schedule));
      }
      return next;
    };
    input.width = tuning_.width;
    input.batch = tuning_.batch;
    input.tried = [&](const Schedule& schedule, const Timing& timing, double best) {
      Report(kernel, ToString(schedule), timing, best);
    };
    const BeamResult result = Beam(input);
    tuned_.out_of_time = tuned_.out_of_time || result.out_of_time;
    Schedule schedule = result.schedule;
    const auto made = result.found ? ChooseBy(kernel, schedule, 0) : absl::NotFoundError("nothing is faster");
    Took(kernel, result.first_micros, made.ok() ? result.best_micros : result.first_micros);
    if (!made.ok()) return;  // it stays as the rules have it
    if (made->may_thread) schedule.push_back({OptOp::kThread, 0});
    (*found_)[kernel.symbol] = ToString(schedule);
  }

  // A search adds OptOps, and nothing may follow a THREAD; each candidate gets its own in the end.
  static Schedule WithoutThreads(Schedule schedule) {
    if (!schedule.empty() && schedule.back().kind == OptOp::kThread) schedule.pop_back();
    return schedule;
  }

  const v1::Graph& graph_;
  const v1::Target target_;
  const std::vector<uint32_t> constants_;
  const Options options_;
  const TuneOptions& tuning_;
  KernelTimer& timer_;
  Tuned tuned_;
  std::shared_ptr<ScheduleMap> found_ = std::make_shared<ScheduleMap>();
};

}  // namespace

absl::StatusOr<Tuned> Tune(const v1::Graph& graph, const v1::Target& target, const Options& options,
                           const TuneOptions& tuning, KernelTimer& timer) {
  return Tuner(graph, target, options, tuning, timer).Run();
}

}  // namespace kiln::compiler
