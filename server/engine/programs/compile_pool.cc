#include "server/engine/programs/compile_pool.h"

#include <utility>

#include "base/check.h"

namespace kiln::server {

CompilePool::CompilePool(uint32_t threads) {
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

void CompilePool::Schedule(absl::AnyInvocable<void()> job) {
  absl::MutexLock lock(&mutex_);
  jobs_.push_back(std::move(job));
}

void CompilePool::Work() {
  for (;;) {
    absl::AnyInvocable<void()> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &CompilePool::HasJobOrEnds));
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace kiln::server
