#include "server/engine/programs/compile_pool.h"

#include <algorithm>
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
  absl::Time since;  // it was begun
  bool aside = false;
  std::optional<std::list<Job*>::iterator> stoppable;
};

struct CompilePool::Watched {
  absl::AnyInvocable<void()> off;
  runtime::hal::LaunchControl control;
  std::optional<std::list<Waiting>::iterator> place;
};

CompilePool::CompilePool(uint32_t threads, size_t most_aside)
    : places_(threads), most_aside_(most_aside), jobs_({.budget_ns = std::numeric_limits<uint64_t>::max() / 2}) {
  KILN_CHECK(threads > 0);
  absl::MutexLock lock(&mutex_);
  for (uint32_t i = 0; i < threads; ++i) StartThread();
  watch_ = std::thread([this] { WatchAll(); });
}

void CompilePool::StartThread() {
  const size_t number = threads_.size();
  running_.push_back(nullptr);
  threads_.emplace_back([this, number] { Work(number); });
}

CompilePool::~CompilePool() {
  {
    absl::MutexLock lock(&mutex_);
    watch_ends_ = true;
  }
  bell_.Ring();
  watch_.join();  // first: what it calls may schedule more, and it starts threads
  std::vector<std::thread> threads;
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
    changed_.SignalAll();
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
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
    if (control.cancelled != nullptr || control.deadline != absl::InfiniteFuture())
      job->stoppable = stoppable_.insert(stoppable_.end(), job);
    first = jobs_.waiting() == 0 && watched_.empty();
    jobs_.Push(job->entry, owner, kGuessNs);
    changed_.Signal();
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
    first = jobs_.waiting() == 0 && watched_.empty();
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
      if (!unwanted.empty()) changed_.SignalAll();
      if (jobs_.waiting() > 0) SetAsideWhatIsLong(SteadyNow());
      wait = jobs_.waiting() == 0 && watched_.empty() ? absl::InfiniteDuration() : kLook;
    }
    for (absl::AnyInvocable<void()>& call : unwanted) call();
  }
}

// Not the server's own: what that schedules may be helpers of somebody's search, which end with it.
void CompilePool::SetAsideWhatIsLong(absl::Time now) {
  for (size_t i = 0; i < running_.size() && aside_ < most_aside_; ++i) {
    Job* const job = running_[i];
    if (job == nullptr || job->aside || job->tenant == 0 || now - job->since < kLong) continue;
    if (jobs_.waiting() == jobs_.waiting(job->tenant)) continue;  // it would be for itself
    jobs_.SetAside(job->entry);
    job->aside = true;
    if (threads_.size() < places_ + ++aside_) StartThread();
    changed_.Signal();
  }
}

std::unique_ptr<CompilePool::Job> CompilePool::Next(size_t thread) {
  absl::MutexLock lock(&mutex_);
  for (;;) {
    // What is set aside has no place.
    const FairQueue::Served served = jobs_.in_flight() < places_ ? jobs_.Pop() : FairQueue::Served();
    if (served.entry != nullptr) {
      jobs_.Open(served.session);
      auto job = std::unique_ptr<Job>(reinterpret_cast<Job*>(served.entry));
      if (job->stoppable.has_value()) stoppable_.erase(*job->stoppable);
      job->since = SteadyNow();
      running_[thread] = job.get();
      return job;
    }
    if (ending_ && jobs_.waiting() == 0) return nullptr;
    changed_.Wait(&mutex_);
  }
}

void CompilePool::Work(size_t thread) {
  while (const std::unique_ptr<Job> job = Next(thread)) {
    job->run();
    job->run = nullptr;
    absl::MutexLock lock(&mutex_);
    running_[thread] = nullptr;
    aside_ -= job->aside ? 1 : 0;
    jobs_.End(job->entry, static_cast<uint64_t>(absl::ToInt64Nanoseconds(SteadyNow() - job->since)));
    // The place, and its caller's other jobs.
    changed_.SignalAll();
  }
}

bool CompilePool::idle() const {
  absl::MutexLock lock(&mutex_);
  return jobs_.waiting() == 0 && jobs_.in_flight() == 0;
}

CompilePool::Look CompilePool::look() const {
  Look look;
  {
    absl::MutexLock lock(&mutex_);
    look.threads = places_;
    look.waiting = jobs_.waiting();
    look.joined = watched_.size();
    for (const Job* const job : running_) {
      if (job != nullptr) look.running.push_back({job->tenant, job->since});
    }
  }
  std::sort(look.running.begin(), look.running.end(),
            [](const Running& a, const Running& b) { return a.since < b.since; });
  return look;
}

}  // namespace kiln::server
