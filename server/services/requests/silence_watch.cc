// Tested by tests/e2e/carry/carry_tenants_test.cc.
#include "server/services/requests/silence_watch.h"

#include <utility>

#include "absl/time/clock.h"

namespace kiln::server {

void SilenceWatch::Begin() {
  absl::MutexLock lock(&mutex_);
  SetAlarm();
}

void SilenceWatch::Heard(bool working) {
  absl::MutexLock lock(&mutex_);
  ++heard_;
  working_ = working;
}

void SilenceWatch::End() {
  absl::MutexLock lock(&mutex_);
  context_ = nullptr;
  if (alarm_ != nullptr) alarm_->Cancel();
}

void SilenceWatch::SetAlarm() {
  alarm_ = std::make_unique<grpc::Alarm>();
  // The alarm keeps this function, and is kept by what it holds: so the function lets go of it.
  alarm_->Set(absl::ToChronoTime(absl::Now() + longest_), [self = shared_from_this(), heard = heard_](bool) mutable {
    std::exchange(self, nullptr)->OnAlarm(heard);
  });
}

// The lock keeps the context while it is used. Nothing that TryCancel brings about calls End() before this returns:
// gRPC runs an alarm's function among those of its executor, and what they set off after them.
void SilenceWatch::OnAlarm(uint64_t heard) {
  absl::MutexLock lock(&mutex_);
  if (context_ == nullptr) return;
  if (heard == heard_ && !working_) context_->TryCancel();
  SetAlarm();
}

}  // namespace kiln::server
