#include "server/engine/programs/compile_pool.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"

namespace kiln::server {
namespace {

// What a job is charged until it has ended.
constexpr uint64_t kGuessNs = 10'000'000;

}  // namespace

struct CompilePool::Job {
  FairQueue::Entry entry;  // first, so that the job is found by it
  absl::AnyInvocable<void()> run;
  uint64_t tenant = 0;
};

// Each thread takes one, so their number is the bound.
CompilePool::CompilePool(uint32_t threads)
    : jobs_({.budget_ns = std::numeric_limits<uint64_t>::max() / 2}), running_(threads) {
  KILN_CHECK(threads > 0);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this, i] { Work(i); });
}

CompilePool::~CompilePool() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void CompilePool::Schedule(const FairOwner& owner, absl::AnyInvocable<void()> run) {
  auto* const job = new Job;
  job->run = std::move(run);
  job->tenant = owner.tenant;
  absl::MutexLock lock(&mutex_);
  jobs_.Push(job->entry, owner, kGuessNs);
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
      running_[thread] = Running{job->tenant, absl::Now()};
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
    for (const std::optional<Running>& running : running_) {
      if (running.has_value()) look.running.push_back(*running);
    }
  }
  std::sort(look.running.begin(), look.running.end(),
            [](const Running& a, const Running& b) { return a.since < b.since; });
  return look;
}

}  // namespace kiln::server
