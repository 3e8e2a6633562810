#include "runtime/drivers/cpu/deadline_watch.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/check.h"

namespace kiln::runtime::cpu {
namespace {

// When it wakes, kernels have all cores. Of a thread that says that it needs a core for a moment only, the
// system knows that it may go first. Systems before Linux 6.12 do not listen.
void AskForShortSlices() {
  // The system's sched_attr, of which C libraries before 2.41 know nothing.
  struct {
    uint32_t size = sizeof(*this), policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 100'000, deadline = 0, period = 0;  // ns; the least there is
  } attributes;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
}

}  // namespace

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
  if (deadline_ < watch_.wakes_) watch_.bell_.Ring();
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
    bell_.Ring();
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void DeadlineWatch::ThreadMain() {
  AskForShortSlices();
  for (absl::Duration wait;; bell_.Wait(wait)) {
    absl::MutexLock lock(&mutex_);
    if (stopping_) return;
    const absl::Time now = SteadyNow();
    wakes_ = absl::InfiniteFuture();
    for (Deadline* deadline = first_; deadline != nullptr; deadline = deadline->next_) {
      if (deadline->deadline_ <= now) {
        deadline->passed_.store(true, std::memory_order_relaxed);
      } else {
        wakes_ = std::min(wakes_, deadline->deadline_);
      }
    }
    wait = wakes_ - now;
  }
}

}  // namespace kiln::runtime::cpu
