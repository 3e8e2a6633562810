// Tested by sequencer_test.cc.
#include "server/models/sequences/wake_ups.h"

#include <pthread.h>

#include <utility>

namespace kiln::server {

WakeUps::~WakeUps() {
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  bell_.Ring();
  if (thread.joinable()) thread.join();
}

void WakeUps::At(absl::Time when, absl::AnyInvocable<void()> call) {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  const auto added = calls_.emplace(when, std::move(call));
  if (!thread_.joinable()) {
    thread_ = std::thread([this] { Work(); });
    pthread_setname_np(thread_.native_handle(), name_);
  }
  if (added == calls_.begin()) bell_.Ring();
}

void WakeUps::Work() {
  for (;;) {
    absl::AnyInvocable<void()> due;
    absl::Duration until = absl::InfiniteDuration();
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      if (const auto first = calls_.begin(); first != calls_.end()) {
        until = first->first - SteadyNow();
        if (until <= absl::ZeroDuration()) {
          due = std::move(first->second);
          calls_.erase(first);
        }
      }
    }
    if (due) {
      due();
    } else {
      bell_.Wait(until);
    }
  }
}

}  // namespace kiln::server
