// A device that is asked for ten times what it can do, by requests that have deadlines, in simulated time: what is done
// in time, and what is spent on what is not.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "runtime/exec/estimate.h"
#include "server/fair/fair_queue.h"
#include "server/fair/lateness.h"

namespace kiln::server {
namespace {

constexpr double kMs = 1e6, kSecond = 1e9;

// A program that is asked for at random, by callers that do not know of each other.
struct Program {
  double run_ns = 24 * kMs;
  double noise = 0;  // the standard deviation of the logarithm of a run
  double deadline_ns = 100 * kMs;
  double load = 1;  // of what the device can do
  size_t callers = 1;
  double known_ns = 0;  // what its runs have been thought to take until now; 0: what they take

  runtime::Estimate estimate;
  Trials trials;
  double next = 0;
  size_t asked = 0, refused = 0, dropped = 0, stopped = 0, done = 0;
  double stopped_ns = 0, done_ns = 0;  // of the device
};

struct Request {
  FairQueue::Entry entry;
  uint64_t number = 0;
  Program* program = nullptr;
  uint64_t estimate_ns = 0, spread_ns = 0;
  double due = 0;
  bool found_idle = false, guessed = false;
};

// As server/fair/turns_late.cc has it; without `drops`, as it would be with one look, when a request comes.
class Overload {
 public:
  explicit Overload(std::vector<std::unique_ptr<Program>> programs, uint32_t seed = 1)
      : programs(std::move(programs)), random_(seed) {
    for (auto& program : this->programs) {
      const double known = program->known_ns > 0 ? program->known_ns : program->run_ns;
      for (int i = 0; i < 100; ++i) program->estimate.Observe(static_cast<uint64_t>(known));
    }
  }
  ~Overload() {
    for (auto& [entry, request] : requests_) {
      request.get() == running_ ? queue_.End(*entry, 0) : queue_.Open(queue_.Remove(*entry));
    }
  }

  void Run(double until) {
    for (; now < until; Look()) {
      double next = running_ == nullptr ? looks_at_ : std::min(looks_at_, ends_at_);
      for (const auto& program : programs) next = std::min(next, program->next);
      if (running_ == nullptr) idle_ns += next - now;
      now = next;
      if (running_ != nullptr && now == ends_at_) End();
      for (size_t i = 0; i < programs.size(); ++i) {
        Program& program = *programs[i];
        if (program.next > now) continue;
        program.next = now - std::log(Uniform()) * program.run_ns / program.load;
        ++program.asked;
        Come(program, 1000 * i + random_() % program.callers);
      }
    }
  }

  std::vector<std::unique_ptr<Program>> programs;
  bool drops = true;
  double now = 0, idle_ns = 0;

 private:
  double Uniform() { return std::uniform_real_distribution<double>(1e-9, 1)(random_); }
  double Normal() { return std::sqrt(-2 * std::log(Uniform())) * std::cos(2 * M_PI * Uniform()); }
  // 1 on average.
  double Noise(double noise) { return std::exp(noise * Normal() - noise * noise / 2); }
  static absl::Duration Ns(double ns) { return absl::Nanoseconds(static_cast<int64_t>(ns)); }
  absl::Time Now() const { return absl::FromUnixSeconds(1'000'000) + Ns(now); }

  // Whether it goes on.
  bool Stays(Request& request, double wait_ns, bool others_wait) {
    Prospect prospect;
    prospect.left = Ns(request.due - now);
    prospect.wait = Ns(wait_ns);
    prospect.others_wait = others_wait;
    if (!request.guessed) {
      prospect.run = Ns(static_cast<double>(request.estimate_ns));
      prospect.spread = Ns(static_cast<double>(request.spread_ns));
    }
    if (request.found_idle || prospect.in_time()) return true;
    if (!prospect.for_itself() ||
        !request.program->trials.Due(Now(), std::min(prospect.run, prospect.left - prospect.wait)))
      return false;
    request.guessed = true;
    return true;
  }

  void Come(Program& program, uint64_t tenant) {
    auto request = std::make_unique<Request>();
    request->number = ++numbers_;
    request->program = &program;
    request->estimate_ns = program.estimate.expected_ns();
    request->spread_ns = program.estimate.spread_ns();
    request->due = now + program.deadline_ns;
    request->found_idle = running_ == nullptr && queue_.waiting() == 0;
    const FairOwner owner{.tenant = tenant};
    const double wait_ns =
        static_cast<double>(queue_.PredictedWait(owner, static_cast<uint64_t>(running_ == nullptr ? 0 : now - began_)));
    if (!Stays(*request, wait_ns, queue_.waiting() > 0)) {
      ++program.refused;
      return;
    }
    queue_.Push(request->entry, owner, request->estimate_ns, /*joint=*/false, {.guessed = request->guessed});
    requests_.emplace(&request->entry, std::move(request));
    Serve();
  }

  void Serve() {
    while (running_ == nullptr) {
      const FairQueue::Served served = queue_.Pop();
      if (served.entry == nullptr) return;
      Request& request = *requests_.at(served.entry);
      if (drops && !Stays(request, 0, queue_.waiting() > 0)) {
        queue_.Remove(request.entry);
        ++request.program->dropped;
        requests_.erase(&request.entry);
      } else {
        running_ = &request;
        request.program->trials.Began(Now());
        began_ = now;
        const double ends_at = now + request.program->run_ns * Noise(request.program->noise);
        ends_well_ = ends_at <= request.due;
        ends_at_ = ends_well_ ? ends_at : std::max(now, request.due);
      }
      queue_.Open(served.session);
    }
  }

  void End() {
    Program& program = *running_->program;
    const double took = now - began_;
    if (ends_well_) {
      ++program.done;
      program.done_ns += took;
      program.estimate.Observe(static_cast<uint64_t>(took));
    } else {
      ++program.stopped;
      program.stopped_ns += took;
      program.estimate.ObserveStopped(static_cast<uint64_t>(took));
    }
    queue_.End(running_->entry, static_cast<uint64_t>(took));
    requests_.erase(&running_->entry);
    running_ = nullptr;
    Serve();
  }

  // From time to time, at all that wait.
  void Look() {
    if (now < looks_at_) return;
    looks_at_ += 5 * kMs;
    std::vector<Request*> waiting;
    for (auto& [entry, request] : requests_) {
      if (request.get() != running_) waiting.push_back(request.get());
    }
    std::sort(waiting.begin(), waiting.end(), [](const Request* a, const Request* b) { return a->number < b->number; });
    for (Request* request : waiting) {
      if (now < request->due && (!drops || Stays(*request, 0, /*others_wait=*/false))) continue;
      queue_.Open(queue_.Remove(request->entry));
      ++request->program->dropped;
      requests_.erase(&request->entry);
    }
    Serve();
  }

  std::mt19937 random_;
  FairQueue queue_{FairQueue::Options()};
  absl::flat_hash_map<FairQueue::Entry*, std::unique_ptr<Request>> requests_;
  Request* running_ = nullptr;
  uint64_t numbers_ = 0;
  bool ends_well_ = false;
  double began_ = 0, ends_at_ = 0, looks_at_ = 0;
};

std::unique_ptr<Program> Asked(double load, double noise, size_t callers) {
  auto program = std::make_unique<Program>();
  program->load = load;
  program->noise = noise;
  program->callers = callers;
  return program;
}

template <typename... Programs>
std::unique_ptr<Overload> Of(Programs... programs) {
  std::vector<std::unique_ptr<Program>> all;
  (all.push_back(std::move(programs)), ...);
  return std::make_unique<Overload>(std::move(all));
}

// Of what the device could do in that time.
double Goodput(const Overload& overload) {
  double done_ns = 0;
  for (const auto& program : overload.programs) done_ns += program->done_ns;
  return done_ns / overload.now;
}

TEST(Overload, AtTenTimesTheLoadTheDeviceDoesNearlyAllThatItCan) {
  std::printf("load  callers  noise  goodput  refused at once  later  stopped  their time\n");
  for (const double noise : {0.05, 0.15, 0.3}) {
    for (const size_t callers : {1, 8}) {
      double best = 0;
      for (const double load : {1.0, 2.0, 4.0, 10.0}) {
        const auto overload = Of(Asked(load, noise, callers));
        overload->Run(100 * kSecond);
        const Program& program = *overload->programs.front();
        const double goodput = Goodput(*overload);
        best = std::max(best, goodput);
        std::printf("%4.0f  %7zu  %5.2f  %6.1f%%  %14.1f%%  %4.1f%%  %6.1f%%  %9.1f%%\n", load, callers, noise,
                    100 * goodput, 100. * program.refused / program.asked, 100. * program.dropped / program.asked,
                    100. * program.stopped / program.asked, 100 * program.stopped_ns / overload->now);
        EXPECT_GE(goodput, 0.95 * best);
        if (load > 1) EXPECT_GE(goodput, 0.95);
        EXPECT_LE(program.stopped_ns, 0.05 * overload->now);
      }
    }
  }
}

// What the test above measures is worth something.
TEST(Overload, WithOneLookWhenARequestComesMuchIsBegunInVain) {
  const auto overload = Of(Asked(10, /*noise=*/0.3, /*callers=*/1));
  overload->drops = false;
  overload->Run(100 * kSecond);
  EXPECT_LE(Goodput(*overload), 0.9);
}

// Short ones beside long ones of others, all at too much: each has its half.
TEST(Overload, SharesAreKept) {
  auto small = Asked(5, 0.15, 1);
  small->run_ns = 1 * kMs;
  small->deadline_ns = 60 * kMs;
  const auto overload = Of(Asked(5, 0.15, 1), std::move(small));
  overload->Run(100 * kSecond);
  EXPECT_GE(Goodput(*overload), 0.95);
  for (const auto& program : overload->programs) {
    EXPECT_NEAR(program->done_ns / overload->now, 0.5, 0.04) << program->run_ns;
  }
}

// It is thought to take far longer than its deadline, and does not; the device is never idle.
TEST(Overload, WhatWasLearnedTooHighIsCorrectedThoughOthersAlwaysWait) {
  auto misjudged = Asked(0.2, 0.1, 1);
  misjudged->run_ns = 1 * kMs;
  misjudged->known_ns = 2000 * kMs;
  misjudged->deadline_ns = 150 * kMs;
  const auto overload = Of(Asked(10, 0.15, 4), std::move(misjudged));
  const Program& program = *overload->programs.back();
  overload->Run(30 * kSecond);
  EXPECT_LT(program.estimate.expected_ns(), 10 * kMs);
  const size_t asked = program.asked, done = program.done;
  overload->Run(60 * kSecond);
  EXPECT_LT(overload->idle_ns, 0.01 * overload->now);
  EXPECT_GE(program.done - done, (program.asked - asked) * 95 / 100);
}

// What really takes longer than its deadline is tried, but not often.
TEST(Overload, WhatCannotBeDoneInTimeTakesLittle) {
  auto hopeless = Asked(5, 0.05, 1);
  hopeless->run_ns = 200 * kMs;
  hopeless->deadline_ns = 100 * kMs;
  const auto overload = Of(Asked(10, 0.15, 1), std::move(hopeless));
  overload->Run(100 * kSecond);
  const Program& program = *overload->programs.back();
  EXPECT_EQ(program.done, 0u);
  EXPECT_GE(program.stopped, 5u) << "its estimate may be wrong";
  EXPECT_LE(program.stopped_ns, 0.06 * overload->now);
  EXPECT_GE(Goodput(*overload), 0.9);
}

// One that has become too slow for its deadlines is found out, though no run of it ends well.
TEST(Overload, WhatHasBecomeTooSlowIsFoundOut) {
  auto slow = Asked(5, 0.05, 1);
  slow->run_ns = 200 * kMs;
  slow->known_ns = 10 * kMs;
  slow->deadline_ns = 100 * kMs;
  const auto overload = Of(Asked(10, 0.15, 1), std::move(slow));
  overload->Run(100 * kSecond);
  const Program& program = *overload->programs.back();
  EXPECT_EQ(program.done, 0u);
  EXPECT_LE(program.stopped_ns, 0.06 * overload->now);
}

// At a load that it can do, hardly anything is refused.
TEST(Overload, WhereThereIsEnoughHardlyAnythingIsRefused) {
  const auto overload = Of(Asked(0.3, 0.15, 4));
  overload->Run(100 * kSecond);
  const Program& program = *overload->programs.front();
  EXPECT_GE(program.done, program.asked * 99 / 100);
}

}  // namespace
}  // namespace kiln::server
