// The queue, with a simulated device: what is promised holds at every moment of random workloads.
#include "server/fair/fair_queue.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace kiln::server {
namespace {

constexpr double kSecond = 1e9;

struct Job {
  FairQueue::Entry entry;
  size_t tenant = 0;
  uint64_t number = 0;  // of its session
  uint64_t session = 0;
  uint64_t cost_ns = 0;
  uint64_t estimate_ns = 0;
  double arrived = 0;
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
      const double end = std::min({ends_at_, NextAsk(), until});
      sources[job.tenant].got += end - now;
      now = end;
      if (moment) moment();
      if (end == ends_at_) Finish();
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
    longest[job->tenant] =
        std::max(longest[job->tenant], static_cast<double>(std::max(job->cost_ns, job->estimate_ns)));
    ++source.waiting;
    Job* const raw = job.release();
    jobs_.emplace(&raw->entry, raw);
    queue.Push(raw->entry, source.owner, raw->estimate_ns);
  }

  void Give() {
    for (FairQueue::Served served = queue.Pop(); served.entry != nullptr; served = queue.Pop()) {
      Job* const job = jobs_.at(served.entry);
      queue.Open(served.session);
      --sources[job->tenant].waiting;
      if (device_.empty()) ends_at_ = now + job->cost_ns;
      device_.push_back(job);
    }
    double in_flight = 0;
    double thought = 0;
    for (const Job* job : device_) {
      in_flight += job->cost_ns;
      thought += job->estimate_ns;
    }
    most_in_flight = std::max({most_in_flight, in_flight, thought});
  }

  void Finish() {
    const std::unique_ptr<Job> job(device_.front());
    device_.pop_front();
    jobs_.erase(&job->entry);
    Source& source = sources[job->tenant];
    EXPECT_EQ(job->number, source.ended[job->session]++) << "the order of a session";
    source.latencies.push_back(now - job->arrived);
    queue.End(job->entry, job->cost_ns);
    if (!device_.empty()) ends_at_ = now + device_.front()->cost_ns;
  }

  void Drain() {
    for (auto& [entry, job] : jobs_) {
      if (std::find(device_.begin(), device_.end(), job) == device_.end()) queue.Remove(job->entry);
      delete job;
    }
  }

  std::mt19937 random_;
  std::deque<Job*> device_;
  absl::flat_hash_map<FairQueue::Entry*, Job*> jobs_;
  double ends_at_ = 0;
};

Source Saturating(uint32_t weight, uint64_t least_ns, uint64_t most_ns, size_t sessions = 1) {
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

TEST(FairQueue, TheBoundHoldsAtEveryMoment) {
  double worst = 0;
  for (uint32_t seed = 1; seed <= 24; ++seed) {
    std::mt19937 random(seed);
    std::vector<Source> sources;
    const size_t count = 2 + seed % 15;
    for (size_t i = 0; i < count; ++i) {
      // Sizes over three decades: some have small ones alone, some large, some all.
      const uint64_t least = 1000 * static_cast<uint64_t>(std::pow(10, random() % 3));
      Source source = Saturating(1 + random() % 8, least, least * 1000, 1 + random() % 4);
      if (random() % 3 == 0) source.on = 2e6 * (1 + random() % 20);
      source.owner.interactive = random() % 5 == 0;
      sources.push_back(source);
    }
    Simulation simulation({}, std::move(sources), seed);
    simulation.noise = seed % 2 == 0 ? 1 : 3;
    SCOPED_TRACE(seed);
    BoundCheck check(simulation);
    simulation.Run(0.5 * kSecond);
    worst = std::max(worst, check.worst);
  }
  std::printf("the worst was %.2f of the bound\n", worst);
}

TEST(FairQueue, SharesOfASecondAreThoseOfTheWeights) {
  for (const size_t count : {2, 4, 8, 16}) {
    std::vector<Source> sources;
    double weights = 0;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t size = 1000 * static_cast<uint64_t>(std::pow(10, i % 4));  // 1 us to 1 ms
      sources.push_back(Saturating(1 + i % 3, size, size * 2, 1 + i % 2));
      weights += 1 + i % 3;
    }
    Simulation simulation({}, std::move(sources), 7);
    simulation.noise = 4;
    simulation.Run(kSecond);
    for (const Source& source : simulation.sources) {
      const double part = kSecond / weights * source.owner.weight;
      // Of a small part, an entry may be more than a few hundredths.
      EXPECT_NEAR(source.got / part, 1, std::max(0.03, 1.5 * source.most_ns / part)) << source.owner.tenant;
    }
  }
}

TEST(FairQueue, SessionsOfATenantShareEvenly) {
  FairQueue queue({.budget_ns = 0});
  constexpr uint64_t kCosts[] = {10'000, 1000};
  std::vector<std::unique_ptr<FairQueue::Entry>> entries;
  double got[2] = {};
  const auto push = [&](uint64_t session) {
    entries.push_back(std::make_unique<FairQueue::Entry>());
    queue.Push(*entries.back(), {.tenant = 1, .session = session}, kCosts[session]);
    return entries.back().get();
  };
  std::vector<FairQueue::Entry*> heads = {push(0), push(1)};
  for (int i = 0; i < 1100; ++i) {
    const FairQueue::Served served = queue.Pop();
    ASSERT_NE(served.entry, nullptr);
    const uint64_t session = served.entry == heads[0] ? 0 : 1;
    heads[session] = push(session);
    queue.Open(served.session);
    got[session] += static_cast<double>(kCosts[session]);
    queue.End(*served.entry, kCosts[session]);
  }
  EXPECT_NEAR(got[0] / got[1], 1, 0.02);
  for (FairQueue::Entry* head : heads) queue.Remove(*head);
  EXPECT_EQ(queue.flows(), 0u);
}

TEST(FairQueue, WhoAsksLittleIsNextAndNobodyStarves) {
  Source small;
  small.owner.weight = 1;
  small.least_ns = small.most_ns = 200'000;
  small.period = 10e6;
  std::vector<Source> sources;
  for (int i = 0; i < 15; ++i) sources.push_back(Saturating(1, 100'000, 1'000'000));
  sources.push_back(small);
  Simulation simulation({}, std::move(sources), 3);
  simulation.Run(2 * kSecond);
  const Source& asked = simulation.sources.back();
  EXPECT_GE(asked.latencies.size(), 199u);
  // What is with the device, and one of each who is as much in its right.
  EXPECT_LE(*std::max_element(asked.latencies.begin(), asked.latencies.end()), 16 * 1e6 + 0.7e6);
}

// A tenant's credit moves it to the front, and is not service: what it gets stays its part.
TEST(FairQueue, CreditIsBounded) {
  std::vector<Source> sources = {Saturating(1, 100'000, 100'000), Saturating(1, 100'000, 100'000)};
  sources[1].owner.interactive = true;
  Simulation simulation({}, std::move(sources), 5);
  for (int tenth = 1; tenth <= 10; ++tenth) {
    simulation.Run(tenth * kSecond / 10);
    const double more = simulation.sources[1].got - simulation.sources[0].got;
    EXPECT_GE(more, 0);
    EXPECT_LE(more, 2e6 + 0.7e6);
  }
}

TEST(FairQueue, OneAtLeastIsWithTheDeviceAndNoMoreThanTheBudget) {
  FairQueue queue({.budget_ns = 100});
  FairQueue::Entry a, b, c, d;
  queue.Push(a, {.tenant = 1, .session = 1}, 1000);
  queue.Push(b, {.tenant = 1, .session = 1}, 60);
  queue.Push(c, {.tenant = 1, .session = 1}, 40);
  queue.Push(d, {.tenant = 1, .session = 1}, 1);
  FairQueue::Served served = queue.Pop();
  EXPECT_EQ(served.entry, &a);
  EXPECT_EQ(queue.Pop().entry, nullptr);  // its session is closed
  queue.Open(served.session);
  EXPECT_EQ(queue.Pop().entry, nullptr);  // the budget is used up
  queue.End(a, 10);
  served = queue.Pop();
  EXPECT_EQ(served.entry, &b);
  queue.Open(served.session);
  served = queue.Pop();
  EXPECT_EQ(served.entry, &c);
  queue.Open(served.session);
  EXPECT_EQ(queue.Pop().entry, nullptr);
  EXPECT_EQ(queue.in_flight(), 2u);
  queue.Remove(d);
  queue.End(b, 60);
  queue.End(c, 60);
  EXPECT_EQ(queue.waiting(), 0u);
  EXPECT_EQ(queue.flows(), 0u);
}

TEST(FairQueue, AJointEntryKeepsItsSessionButNotTheDevice) {
  FairQueue queue({});
  FairQueue::Entry joint, behind, other;
  queue.Push(joint, {.tenant = 1, .session = 1}, 1'000'000, /*joint=*/true);
  queue.Push(behind, {.tenant = 1, .session = 1}, 10);
  queue.Push(other, {.tenant = 1, .session = 2}, 10);
  const FairQueue::Served first = queue.Pop();
  EXPECT_EQ(first.entry, &joint);
  EXPECT_EQ(queue.in_flight(), 0u);
  const FairQueue::Served second = queue.Pop();
  EXPECT_EQ(second.entry, &other);
  queue.Open(second.session);
  EXPECT_EQ(queue.Pop().entry, nullptr);
  queue.End(other, 10);
  queue.Begin(joint);
  queue.Open(first.session);
  const FairQueue::Served third = queue.Pop();
  EXPECT_EQ(third.entry, &behind);
  queue.Open(third.session);
  queue.End(behind, 10);
  queue.End(joint, 10);

  queue.Push(joint, {.tenant = 1, .session = 1}, 1'000'000, /*joint=*/true);
  EXPECT_EQ(queue.Pop().entry, &joint);
  queue.Remove(joint);  // before it began
  EXPECT_EQ(queue.flows(), 0u);
}

TEST(FairQueue, PredictsTheWaitFromWhatIsThere) {
  FairQueue queue({.budget_ns = 1000});
  const FairOwner a{.tenant = 1, .session = 1, .weight = 1}, b{.tenant = 2, .session = 1, .weight = 3};
  EXPECT_EQ(queue.PredictedWait(a), 0u);
  FairQueue::Entry one, two, three;
  queue.Push(one, a, 1000);
  const FairQueue::Served served = queue.Pop();
  queue.Open(served.session);
  queue.Push(two, a, 500);
  queue.Push(three, b, 9000);
  EXPECT_EQ(queue.PredictedWait(a), 1000u + 4 * 500);
  EXPECT_EQ(queue.PredictedWait(b), 1000u + 9500);  // no more than all there is
  EXPECT_EQ(queue.PredictedWait({.tenant = 3, .session = 1}), 1000u);
  queue.Remove(two);
  queue.Remove(three);
  queue.End(one, 1000);
}

TEST(FairQueue, WhatIsChargedIsPaidLater) {
  FairQueue queue({.budget_ns = 0});
  FairQueue::Entry a, b;
  queue.Push(a, {.tenant = 1, .session = 1}, 10);
  queue.Push(b, {.tenant = 2, .session = 1}, 10);
  queue.Charge({.tenant = 1, .session = 1}, 100);
  FairQueue::Served served = queue.Pop();
  EXPECT_EQ(served.entry, &b);
  queue.Open(served.session);
  queue.End(b, 10);
  served = queue.Pop();
  EXPECT_EQ(served.entry, &a);
  queue.Open(served.session);
  queue.End(a, 10);
}

// The table of the design: A of weight 1 with entries of 5 ms and B of weight 3 with 50 us, both
// always waiting; C asks 100 times a second for 0.2 ms.
TEST(FairQueue, AgainstOneQueueInOrder) {
  const auto p99 = [](std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() * 99 / 100] / 1e6;
  };
  const auto sources = [](uint64_t longest) {
    Source c;
    c.least_ns = c.most_ns = 200'000;
    c.period = 10e6;
    c.owner.interactive = true;
    std::vector<Source> all = {Saturating(1, longest, longest), Saturating(3, 50'000, 50'000), c};
    all[0].waits = 16 * 5'000'000 / longest;
    all[1].waits = 16;
    return all;
  };
  std::printf("policy            A : B            C p99\n");
  {
    // In order: a queue that all share.
    std::vector<Source> all = sources(5'000'000);
    std::deque<std::pair<size_t, double>> line;
    std::vector<double> got(3), latencies;
    double now = 0, asks = 0;
    for (int i = 0; i < 16; ++i) line.insert(line.end(), {{0, 0.0}, {1, 0.0}});
    while (now < 10 * kSecond) {
      for (; asks <= now; asks += 10e6) line.emplace_back(2, asks);
      const auto [who, since] = line.front();
      line.pop_front();
      now += all[who].least_ns;
      got[who] += all[who].least_ns;
      if (who == 2) {
        latencies.push_back(now - since);
      } else {
        line.emplace_back(who, now);
      }
    }
    std::printf("in order          %.2f : %.2f   %6.2f ms\n", got[0] / now, got[1] / now, p99(latencies));
    EXPECT_GT(got[0] / got[1], 50);
    EXPECT_GT(p99(latencies), 50);
  }
  for (const uint64_t longest : {5'000'000, 500'000}) {
    Simulation simulation({}, sources(longest), 1);
    simulation.Run(10 * kSecond);
    const std::vector<Source>& all = simulation.sources;
    std::printf("fair, %3.1f ms      %.2f : %.2f   %6.2f ms\n", longest / 1e6, all[0].got / simulation.now,
                all[1].got / simulation.now, p99(all[2].latencies));
    EXPECT_NEAR(all[1].got / all[0].got, 3, 0.03);
    EXPECT_LE(p99(all[2].latencies), (longest + 200'000 + 500'000) / 1e6);
  }
}

TEST(FairQueue, ForgetsWhoIsGoneAndIsQuickWithAThousandTenants) {
  constexpr size_t kTenants = 1000, kRounds = 200'000;
  FairQueue queue({.budget_ns = 0});
  std::vector<FairQueue::Entry> entries(kTenants);
  std::vector<FairOwner> owners(kTenants);
  absl::flat_hash_map<FairQueue::Entry*, size_t> numbers;
  for (size_t i = 0; i < kTenants; ++i) {
    owners[i] = {.tenant = i, .session = i, .weight = static_cast<uint32_t>(1 + i % 4)};
    numbers[&entries[i]] = i;
    queue.Push(entries[i], owners[i], 100 + i);
  }
  EXPECT_EQ(queue.flows(), 2 * kTenants);
  const auto begin = std::chrono::steady_clock::now();
  for (size_t round = 0; round < kRounds; ++round) {
    const FairQueue::Served served = queue.Pop();
    const size_t i = numbers[served.entry];
    queue.Open(served.session);
    queue.End(*served.entry, 100 + i);
    queue.Push(entries[i], owners[i], 100 + i);
  }
  const std::chrono::duration<double, std::nano> passed = std::chrono::steady_clock::now() - begin;
  std::printf("%.0f ns for one that comes, is served and ends, of %zu tenants\n", passed.count() / kRounds, kTenants);
  for (FairQueue::Entry& entry : entries) queue.Remove(entry);
  EXPECT_EQ(queue.flows(), 0u);
}

// Tenants that come once each, while one stays: only those that are ahead of it are remembered.
TEST(FairQueue, RemembersNoMoreThanItMust) {
  FairQueue queue({.budget_ns = 0});
  FairQueue::Entry busy, guest;
  size_t most = 0;
  queue.Push(busy, {.tenant = 0, .session = 0}, 100);
  for (uint64_t i = 1; i <= 10'000; ++i) {
    queue.Push(guest, {.tenant = i, .session = i}, 100);
    for (int both = 0; both < 2; ++both) {
      const FairQueue::Served served = queue.Pop();
      queue.Open(served.session);
      queue.End(*served.entry, 100);
      if (served.entry == &busy) queue.Push(busy, {.tenant = 0, .session = i}, 100);
    }
    if (queue.waiting() > 1) queue.Remove(guest);
    most = std::max(most, queue.flows());
  }
  EXPECT_LE(most, 16u);
  queue.Remove(busy);
  EXPECT_EQ(queue.flows(), 0u);
}

}  // namespace
}  // namespace kiln::server
