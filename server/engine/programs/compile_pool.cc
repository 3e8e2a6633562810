#include "server/engine/programs/compile_pool.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/time/time.h"
#include "base/check.h"
#include "base/clock.h"
#include "server/fair/owner.h"

namespace kiln::server {
namespace {

// What a job is charged until it has ended.
constexpr uint64_t kGuessNs = 10'000'000;
// How often those that wait are asked whether they are wanted.
constexpr absl::Duration kLook = absl::Milliseconds(5);

}  // namespace

struct CompilePool::Job {
  FairQueue::Entry entry;  // first, so that the job is found by it
  absl::AnyInvocable<void()> run;
  runtime::hal::LaunchControl control;
  uint64_t tenant = 0;
  std::optional<std::list<Job*>::iterator> stoppable;
};

struct CompilePool::Watched {
  absl::AnyInvocable<void()> off;
  runtime::hal::LaunchControl control;
  std::optional<std::list<Waiting>::iterator> place;
};

// Each thread takes one, so their number is the bound.
CompilePool::CompilePool(uint32_t threads)
    : jobs_({.budget_ns = std::numeric_limits<uint64_t>::max() / 2}), running_(threads) {
  KILN_CHECK(threads > 0);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { Work(i); });
  watch_ = std::thread([this] { WatchAll(); });
}

CompilePool::~CompilePool() {
  {
    absl::MutexLock lock(&mutex_);
    watch_ends_ = true;
  }
  bell_.Ring();
  watch_.join();  // first: what it calls may schedule more
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void CompilePool::Schedule(const runtime::hal::LaunchControl& control, absl::AnyInvocable<void()> run) {
  auto* const job = new Job;
  job->run = std::move(run);
  const FairOwner owner = OwnerOf(control);
  job->tenant = owner.tenant;
  job->control = control;
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    if (control.cancelled != nullptr || control.deadline != absl::InfiniteFuture()) {
      first = stoppable_.empty() && watched_.empty();
      job->stoppable = stoppable_.insert(stoppable_.end(), job);
    }
    jobs_.Push(job->entry, owner, kGuessNs);
  }
  if (first) bell_.Ring();
}

CompilePool::Waiting CompilePool::Watch(const runtime::hal::LaunchControl& control, absl::AnyInvocable<void()> off) {
  auto watched = std::make_shared<Watched>();
  if (control.cancelled == nullptr && control.deadline == absl::InfiniteFuture()) return watched;
  watched->off = std::move(off);
  watched->control = control;
  bool first = false;
  {
    absl::MutexLock lock(&mutex_);
    first = stoppable_.empty() && watched_.empty();
    watched->place = watched_.insert(watched_.end(), watched);
  }
  if (first) bell_.Ring();
  return watched;
}

void CompilePool::Forget(const Waiting& waiting) {
  absl::AnyInvocable<void()> off;  // gone after the lock
  absl::MutexLock lock(&mutex_);
  if (!waiting->place.has_value()) return;
  off = std::move(waiting->off);
  watched_.erase(*std::exchange(waiting->place, std::nullopt));
}

std::vector<absl::AnyInvocable<void()>> CompilePool::TakeUnwanted() {
  std::vector<absl::AnyInvocable<void()>> unwanted;
  for (auto each = stoppable_.begin(); each != stoppable_.end();) {
    Job* const job = *each++;
    if (job->control.Check().ok()) continue;
    jobs_.Open(jobs_.Remove(job->entry));
    stoppable_.erase(*job->stoppable);
    unwanted.push_back(std::move(job->run));
    delete job;
  }
  for (auto each = watched_.begin(); each != watched_.end();) {
    const Waiting waiting = *each++;
    if (waiting->control.Check().ok()) continue;
    unwanted.push_back(std::move(waiting->off));
    watched_.erase(*std::exchange(waiting->place, std::nullopt));
  }
  return unwanted;
}

void CompilePool::WatchAll() {
  for (absl::Duration wait = absl::InfiniteDuration();;) {
    bell_.Wait(wait);
    std::vector<absl::AnyInvocable<void()>> unwanted;
    {
      absl::MutexLock lock(&mutex_);
      if (watch_ends_) return;
      unwanted = TakeUnwanted();
      wait = stoppable_.empty() && watched_.empty() ? absl::InfiniteDuration() : kLook;
    }
    for (absl::AnyInvocable<void()>& call : unwanted) call();
  }
}

void CompilePool::Work(size_t thread) {
  for (;;) {
    std::unique_ptr<Job> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CompilePool::HasJobOrEnds));
      const FairQueue::Served served = jobs_.Pop();
      if (served.entry == nullptr) return;
      jobs_.Open(served.session);
      job.reset(reinterpret_cast<Job*>(served.entry));
      if (job->stoppable.has_value()) stoppable_.erase(*job->stoppable);
      running_[thread] = Running{job->tenant, SteadyNow()};
    }
    const auto begin = std::chrono::steady_clock::now();
    job->run();
    job->run = nullptr;
    const auto passed = std::chrono::steady_clock::now() - begin;
    absl::MutexLock lock(&mutex_);
    running_[thread].reset();
    jobs_.End(job->entry, static_cast<uint64_t>(std::chrono::nanoseconds(passed).count()));
  }
}

CompilePool::Look CompilePool::look() const {
  Look look;
  {
    absl::MutexLock lock(&mutex_);
    look.threads = running_.size();
    look.waiting = jobs_.waiting();
    look.joined = watched_.size();
    for (const std::optional<Running>& running : running_) {
      if (running.has_value()) look.running.push_back(*running);
    }
  }
  std::sort(look.running.begin(), look.running.end(),
            [](const Running& a, const Running& b) { return a.since < b.since; });
  return look;
}

}  // namespace kiln::server
