#include "runtime/drivers/cpu/deadline_watch.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/check.h"

namespace kiln::runtime::cpu {

DeadlineWatch::Deadline::Deadline(DeadlineWatch& watch, absl::Time deadline) : watch_(watch), deadline_(deadline) {
  if (deadline_ == absl::InfiniteFuture()) return;
  absl::MutexLock lock(&watch_.mutex_);
  if (!watch_.thread_.joinable()) {
    watch_.thread_ = std::thread([&watch] { watch.ThreadMain(); });
    pthread_setname_np(watch_.thread_.native_handle(), "kiln-deadlines");
  }
  next_ = watch_.first_;
  if (next_ != nullptr) next_->to_this_ = &next_;
  to_this_ = &watch_.first_;
  watch_.first_ = this;
  if (deadline_ < watch_.wakes_) watch_.changed_.Signal();
}

DeadlineWatch::Deadline::~Deadline() {
  if (deadline_ == absl::InfiniteFuture()) return;
  absl::MutexLock lock(&watch_.mutex_);
  *to_this_ = next_;
  if (next_ != nullptr) next_->to_this_ = to_this_;
}

DeadlineWatch::~DeadlineWatch() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    KILN_CHECK(first_ == nullptr);
    stopping_ = true;
    changed_.Signal();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void DeadlineWatch::ThreadMain() {
  absl::MutexLock lock(&mutex_);
  while (!stopping_) {
    const absl::Time now = absl::Now();
    wakes_ = absl::InfiniteFuture();
    for (Deadline* deadline = first_; deadline != nullptr; deadline = deadline->next_) {
      if (deadline->deadline_ <= now) {
        deadline->passed_.store(true, std::memory_order_relaxed);
      } else {
        wakes_ = std::min(wakes_, deadline->deadline_);
      }
    }
    changed_.WaitWithDeadline(&mutex_, wakes_);
  }
}

}  // namespace kiln::runtime::cpu
