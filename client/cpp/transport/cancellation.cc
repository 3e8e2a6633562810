// Tested by the case errors.cancelled (tests/clients/cases/errors.json) and tests/clients/cpp_client_test.py.
#include "client/cpp/transport/cancellation.h"

#include <grpcpp/client_context.h>

#include <algorithm>

#include "absl/time/clock.h"

namespace kiln::client {

void Cancellation::Cancel() {
  absl::MutexLock lock(&mutex_);
  cancelled_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
}

Cancellation::Scope::Scope(Cancellation* of, grpc::ClientContext& call) : of_(of), call_(call) {
  if (of_ == nullptr) return;
  absl::MutexLock lock(&of_->mutex_);
  of_->calls_.push_back(&call_);
  // A context that is cancelled before its call ends that as it begins.
  if (of_->cancelled_) call_.TryCancel();
}

Cancellation::Scope::~Scope() {
  if (of_ == nullptr) return;
  absl::MutexLock lock(&of_->mutex_);
  of_->calls_.erase(std::find(of_->calls_.begin(), of_->calls_.end(), &call_));
}

bool Cancellation::Sleep(Cancellation* of, absl::Duration time) {
  if (of == nullptr) {
    absl::SleepFor(time);
    return true;
  }
  absl::MutexLock lock(&of->mutex_);
  return !of->mutex_.AwaitWithTimeout(absl::Condition(&of->cancelled_), time);
}

}  // namespace kiln::client
