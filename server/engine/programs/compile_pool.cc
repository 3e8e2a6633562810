#include "server/engine/programs/compile_pool.h"

#include <chrono>
#include <limits>
#include <memory>
#include <utility>

#include "base/check.h"

namespace kiln::server {
namespace {

// What a job is charged until it has ended.
constexpr uint64_t kGuessNs = 10'000'000;

}  // namespace

struct CompilePool::Job {
  FairQueue::Entry entry;  // first, so that the job is found by it
  absl::AnyInvocable<void()> run;
};

// Each thread takes one, so their number is the bound.
CompilePool::CompilePool(uint32_t threads) : jobs_({.budget_ns = std::numeric_limits<uint64_t>::max() / 2}) {
  KILN_CHECK(threads > 0);
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
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
  absl::MutexLock lock(&mutex_);
  jobs_.Push(job->entry, owner, kGuessNs);
}

void CompilePool::Work() {
  for (;;) {
    std::unique_ptr<Job> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CompilePool::HasJobOrEnds));
      const FairQueue::Served served = jobs_.Pop();
      if (served.entry == nullptr) return;
      jobs_.Open(served.session);
      job.reset(reinterpret_cast<Job*>(served.entry));
    }
    const auto begin = std::chrono::steady_clock::now();
    job->run();
    job->run = nullptr;
    const auto passed = std::chrono::steady_clock::now() - begin;
    absl::MutexLock lock(&mutex_);
    jobs_.End(job->entry, static_cast<uint64_t>(std::chrono::nanoseconds(passed).count()));
  }
}

}  // namespace kiln::server
