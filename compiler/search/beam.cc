#include "compiler/search/beam.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "compiler/opt/schedule_text.h"

namespace kiln::compiler {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// What takes longer than this many times the fastest leads nowhere: no need to time it well.
constexpr double kHopeless = 3;
// A round that brings less has brought nothing; and what is gained by less may be chance.
constexpr double kGain = 0.98;
constexpr uint32_t kMaxRounds = 32;
// The fastest are run again beside what the rules chose, since the best of many times is a lucky one.
constexpr size_t kFinalists = 3;
constexpr int kFinals = 3;

struct Timed {
  Schedule schedule;
  Trial trial;
  double micros;
};

class Search {
 public:
  explicit Search(const BeamInput& input) : input_(input) {}

  BeamResult Run() {
    const Timing usual = input_.usual.fault.empty() ? input_.usual.time(kNever) : Timing{0, input_.usual.fault};
    Report(input_.usual_schedule, usual);
    if (!usual.fault.empty()) {
      result_.fault = usual.fault;
      return result_;
    }
    result_.first_micros = usual.micros;
    Line rules, plain;
    seen_.insert(ToString(input_.usual_schedule));
    rules.all.push_back({input_.usual_schedule, input_.usual, usual.micros});
    Try({Schedule()}, plain);
    for (uint32_t round = 0; round < kMaxRounds && (rules.alive || plain.alive) && !result_.out_of_time; ++round) {
      Advance(rules);
      Advance(plain);
    }
    Decide(rules, plain);
    return result_;
  }

 private:
  // One of the two searches.
  struct Line {
    std::vector<Timed> all;  // fastest first
    absl::flat_hash_set<std::string> expanded;
    bool alive = true;
  };

  bool OutOfTime() {
    result_.out_of_time = result_.out_of_time || input_.out_of_time();
    return result_.out_of_time;
  }

  void Report(const Schedule& schedule, const Timing& timing) {
    ++result_.tried;
    if (timing.fault.empty()) best_ = std::min(best_, timing.micros);
    if (input_.tried) input_.tried(schedule, timing, best_ == kNever ? 0 : best_);
  }

  // Times all of `schedules` that nobody has tried yet, and keeps those that run.
  void Try(const std::vector<Schedule>& schedules, Line& line) {
    std::vector<Schedule> fresh;
    for (const Schedule& schedule : schedules) {
      if (seen_.insert(ToString(schedule)).second) fresh.push_back(schedule);
    }
    for (size_t begin = 0; begin < fresh.size() && !OutOfTime(); begin += input_.batch) {
      const absl::Span<const Schedule> batch = absl::MakeConstSpan(fresh).subspan(begin, input_.batch);
      const std::vector<Trial> trials = input_.compile(batch);
      for (size_t i = 0; i < trials.size() && !OutOfTime(); ++i) {
        const Timing timing = trials[i].fault.empty() ? trials[i].time(kHopeless * best_) : Timing{0, trials[i].fault};
        Report(batch[i], timing);
        if (timing.fault.empty()) line.all.push_back({batch[i], trials[i], timing.micros});
      }
    }
    std::stable_sort(line.all.begin(), line.all.end(),
                     [](const Timed& a, const Timed& b) { return a.micros < b.micros; });
  }

  // One round: from the fastest that have not been gone on from.
  void Advance(Line& line) {
    if (!line.alive) return;
    const double before = line.all.empty() ? kNever : line.all[0].micros;
    std::vector<Schedule> from, next;
    for (const Timed& timed : line.all) {
      if (from.size() == input_.width) break;
      if (line.expanded.insert(ToString(timed.schedule)).second) from.push_back(timed.schedule);
    }
    for (const Schedule& schedule : from) {
      if (OutOfTime()) break;
      for (Schedule& one : input_.next(schedule)) next.push_back(std::move(one));
    }
    Try(next, line);
    line.alive = !from.empty() && !line.all.empty() && line.all[0].micros < before * kGain;
  }

  // The fastest and what the rules chose, round by round.
  void Decide(const Line& rules, const Line& plain) {
    std::vector<Timed> finalists = rules.all;
    finalists.insert(finalists.end(), plain.all.begin(), plain.all.end());
    std::stable_sort(finalists.begin(), finalists.end(),
                     [](const Timed& a, const Timed& b) { return a.micros < b.micros; });
    if (finalists.size() > kFinalists) finalists.resize(kFinalists);
    const std::string usual_text = ToString(input_.usual_schedule);
    double usual = kNever;
    std::vector<double> times(finalists.size(), kNever);
    for (int round = 0; round < kFinals; ++round) {
      const Timing again = input_.usual.time(kNever);
      if (again.fault.empty()) usual = std::min(usual, again.micros);
      for (size_t i = 0; i < finalists.size(); ++i) {
        if (ToString(finalists[i].schedule) == usual_text) continue;
        const Timing timing = finalists[i].trial.time(kNever);
        if (timing.fault.empty()) times[i] = std::min(times[i], timing.micros);
      }
    }
    if (usual != kNever) result_.first_micros = usual;
    result_.best_micros = result_.first_micros;
    for (size_t i = 0; i < finalists.size(); ++i) {
      if (times[i] >= result_.first_micros * kGain || times[i] >= result_.best_micros) continue;
      result_.found = true;
      result_.best_micros = times[i];
      result_.schedule = finalists[i].schedule;
    }
  }

  const BeamInput& input_;
  BeamResult result_;
  absl::flat_hash_set<std::string> seen_;
  double best_ = kNever;
};

}  // namespace

BeamResult Beam(const BeamInput& input) { return Search(input).Run(); }

}  // namespace kiln::compiler
