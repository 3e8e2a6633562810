// A device that is simulated, with tenants that ask of it: what a FairQueue is tried with.
#ifndef KILN_SERVER_FAIR_SIMULATION_H_
#define KILN_SERVER_FAIR_SIMULATION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"
#include "server/fair/fair_queue.h"
#include "server/fair/slice.h"

namespace kiln::server {

inline constexpr double kSecond = 1e9;

struct Job {
  FairQueue::Entry entry;
  size_t tenant = 0;
  uint64_t number = 0;  // of its session
  uint64_t session = 0;
  uint64_t cost_ns = 0;
  uint64_t estimate_ns = 0;
  double arrived = 0;
  uint64_t had_ns = 0;  // of the cost, in the slices before this one
  bool paused = false;
};

// One tenant, and how it asks.
struct Source {
  FairOwner owner;
  uint64_t least_ns = 1000, most_ns = 1'000'000;
  size_t sessions = 1;
  // Keeps so many waiting while it is on; or asks every `period`.
  size_t waits = 0;
  double period = 0;
  // On and off for so long on average; 0: always on.
  double on = 0;

  bool is_on = true;
  double turns_at = 0, asks_at = 0;
  double got = 0;  // ns of the device
  std::vector<uint64_t> sent, ended;
  std::vector<double> latencies;
  size_t waiting = 0;
};

// A device that does what it is given one by one.
class Simulation {
 public:
  Simulation(const FairQueue::Options& options, std::vector<Source> sources, uint32_t seed)
      : queue(options), sources(std::move(sources)), random_(seed) {
    for (size_t i = 0; i < this->sources.size(); ++i) {
      Source& source = this->sources[i];
      source.owner.tenant = i + 1;
      source.sent.resize(source.sessions);
      source.ended.resize(source.sessions);
    }
  }
  ~Simulation() { Drain(); }

  void Run(double until) {
    while (now < until) {
      Ask();
      Give();
      if (device_.empty()) {
        // Nothing waits: the device may be idle.
        EXPECT_EQ(queue.waiting(), 0u);
        now = NextAsk();
        continue;
      }
      Job& job = *device_.front();
      const double end = std::min({ends_at_, slice_ends_at_, NextAsk(), until});
      sources[job.tenant].got += end - now;
      now = end;
      if (moment) moment();
      if (end == ends_at_) {
        Finish();
      } else if (end == slice_ends_at_) {
        Pause(job);
      }
    }
  }

  double NextAsk() const {
    double next = 1e18;
    for (const Source& source : sources) {
      if (source.on > 0) next = std::min(next, source.turns_at);
      if (source.period > 0) next = std::min(next, source.asks_at);
    }
    return std::max(next, now + 1);
  }

  FairQueue queue;
  std::vector<Source> sources;
  std::function<void()> moment;
  double now = 0;
  double most_in_flight = 0;  // by what it takes, or is thought to take
  std::vector<double> longest = std::vector<double>(64);
  double noise = 1;  // estimates are wrong by up to this factor
  // After so long what the device works on pauses, if somebody else is next; 0: it does not.
  double slice = 0;
  // Slices are shorter for who has a small part (slice.h), among all that there are.
  bool slices_by_part = false;

 private:
  double Uniform() { return std::uniform_real_distribution<double>(0, 1)(random_); }

  void Ask() {
    for (Source& source : sources) {
      if (source.on > 0 && now >= source.turns_at) {
        source.is_on = !source.is_on;
        source.turns_at = now + source.on * -std::log(1 - 0.999 * Uniform());
      }
      while (source.waits > 0 && source.is_on && source.waiting < source.waits) Add(source);
      if (source.period > 0 && now >= source.asks_at) {
        source.asks_at += source.period;
        Add(source);
      }
    }
  }

  void Add(Source& source) {
    auto job = std::make_unique<Job>();
    job->tenant = source.owner.tenant - 1;
    job->session = random_() % source.sessions;
    job->number = source.sent[job->session]++;
    job->cost_ns = static_cast<uint64_t>(source.least_ns *
                                         std::pow(static_cast<double>(source.most_ns) / source.least_ns, Uniform()));
    job->arrived = now;
    source.owner.session = job->session;
    job->estimate_ns = static_cast<uint64_t>(job->cost_ns * std::pow(noise, 2 * Uniform() - 1));
    longest[job->tenant] = std::max(longest[job->tenant], Part(*job, std::max(job->cost_ns, job->estimate_ns)));
    ++source.waiting;
    Job* const raw = job.release();
    jobs_.emplace(&raw->entry, raw);
    queue.Push(raw->entry, source.owner, raw->estimate_ns);
  }

  void Give() {
    for (FairQueue::Served served = queue.Pop(); served.entry != nullptr; served = queue.Pop()) {
      Job* const job = jobs_.at(served.entry);
      queue.Open(served.session);
      if (!job->paused) --sources[job->tenant].waiting;
      job->paused = false;
      device_.push_back(job);
      if (device_.size() == 1) Begin();
    }
    double in_flight = 0;
    double thought = 0;
    for (const Job* job : device_) {
      in_flight += Part(*job, job->cost_ns);
      thought += Part(*job, job->estimate_ns);
    }
    most_in_flight = std::max({most_in_flight, in_flight, thought});
  }

  // So much of what takes, or is thought to take, `ns` may come in one go: what was thought to fit in with others of
  // its tenant does not pause while these are behind it.
  double Part(const Job& job, uint64_t ns) const {
    const bool pauses = slice != 0 && job.estimate_ns > FairQueue::Options().budget_ns;
    return pauses ? std::min(static_cast<double>(ns), slice) : static_cast<double>(ns);
  }

  // The device comes to the first that it has.
  void Begin() {
    const Job& job = *device_.front();
    ends_at_ = now + static_cast<double>(job.cost_ns - job.had_ns);
    slice_began_ = now;
    slice_ends_at_ = slice == 0 ? 1e18 : now + SliceFor(job.tenant);
  }

  double SliceFor(size_t tenant) const {
    double weights = 0;
    for (const Source& source : sources) weights += source.owner.weight;
    return slice * (slices_by_part ? SliceOf(sources[tenant].owner.weight / weights) : 1);
  }

  void Pause(Job& job) {
    const auto had_ns = static_cast<uint64_t>(now - slice_began_);
    job.had_ns += had_ns;
    if (queue.Pause(job.entry, had_ns)) {
      device_.pop_front();
      job.paused = true;
    }
    if (!device_.empty()) Begin();
  }

  void Finish() {
    const std::unique_ptr<Job> job(device_.front());
    device_.pop_front();
    jobs_.erase(&job->entry);
    Source& source = sources[job->tenant];
    EXPECT_EQ(job->number, source.ended[job->session]++) << "the order of a session";
    source.latencies.push_back(now - job->arrived);
    queue.End(job->entry, job->cost_ns - job->had_ns);
    if (!device_.empty()) Begin();
  }

  void Drain() {
    for (auto& [entry, job] : jobs_) {
      if (job->paused) {
        queue.Open(queue.Rush(job->entry));
      } else if (std::find(device_.begin(), device_.end(), job) == device_.end()) {
        queue.Open(queue.Remove(job->entry));
      }
      delete job;
    }
  }

  std::mt19937 random_;
  std::deque<Job*> device_;
  absl::flat_hash_map<FairQueue::Entry*, Job*> jobs_;
  double ends_at_ = 0;
  double slice_began_ = 0;
  double slice_ends_at_ = 1e18;
};

inline Source Saturating(uint32_t weight, uint64_t least_ns, uint64_t most_ns, size_t sessions = 1) {
  Source source;
  source.owner.weight = weight;
  source.least_ns = least_ns;
  source.most_ns = most_ns;
  source.sessions = sessions;
  source.waits = 8 + 2'000'000 / least_ns;  // more than the budget lets go at once
  return source;
}

// While two both wait, what they got does not part by more than the bound, in any span.
class BoundCheck {
 public:
  explicit BoundCheck(Simulation& simulation) : simulation_(simulation), spans_(64 * 64) {
    simulation.moment = [this] { Look(); };
  }
  double worst = 0;  // of the bound

 private:
  struct Span {
    double least = 0, most = 0;
    bool open = false;
  };
  void Look() {
    const std::vector<Source>& sources = simulation_.sources;
    for (size_t f = 0; f < sources.size(); ++f) {
      for (size_t g = f + 1; g < sources.size(); ++g) {
        Span& span = spans_[f * 64 + g];
        if (sources[f].waiting == 0 || sources[g].waiting == 0) {
          span.open = false;
          continue;
        }
        const double wf = sources[f].owner.weight, wg = sources[g].owner.weight;
        const double apart = sources[f].got / wf - sources[g].got / wg;
        if (!span.open) span = {apart, apart, true};
        span.least = std::min(span.least, apart);
        span.most = std::max(span.most, apart);
        double bound = (simulation_.most_in_flight + simulation_.longest[f]) / wf +
                       (simulation_.most_in_flight + simulation_.longest[g]) / wg;
        if (sources[f].owner.interactive) bound += 4e6 / wf;
        if (sources[g].owner.interactive) bound += 4e6 / wg;
        worst = std::max(worst, (span.most - span.least) / bound);
        ASSERT_LE(span.most - span.least, bound) << f << " and " << g << " at " << simulation_.now;
      }
    }
  }

  Simulation& simulation_;
  std::vector<Span> spans_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_SIMULATION_H_
