#include "runtime/drivers/host/host_timeline.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/error.h"

namespace kiln::runtime::host {

HostTimeline::~HostTimeline() { Fail(MakeError(v1::CALL_CANCELLED, "the timeline was destroyed")); }

uint64_t HostTimeline::value() const {
  absl::MutexLock lock(&mutex_);
  return value_;
}

void HostTimeline::Signal(uint64_t value) {
  Callbacks due;
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok() || value <= value_) return;
    value_ = value;
    while (!callbacks_.empty() && callbacks_.begin()->first <= value) {
      due.insert(due.end(), callbacks_.extract(callbacks_.begin()));
    }
  }
  for (auto& [reached, callback] : due) callback(absl::OkStatus());
}

void HostTimeline::Fail(absl::Status status) {
  KILN_CHECK(!status.ok());
  Callbacks due;
  {
    absl::MutexLock lock(&mutex_);
    if (!failure_.ok()) return;
    failure_ = status;
    due.swap(callbacks_);
  }
  for (auto& [wanted, callback] : due) callback(status);
}

absl::Status HostTimeline::Wait(uint64_t value, absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto settled = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return value_ >= value || !failure_.ok(); };
  const bool in_time = mutex_.AwaitWithDeadline(absl::Condition(&settled), deadline);
  if (value_ >= value) return absl::OkStatus();
  if (!failure_.ok()) return failure_;
  KILN_CHECK(!in_time);
  return MakeError(v1::DEADLINE_PASSED,
                   absl::StrCat("the timeline was at ", value_, " and not at ", value, " by the deadline"));
}

void HostTimeline::OnReached(uint64_t value, absl::AnyInvocable<void(absl::Status)> callback) {
  absl::Status outcome;
  {
    absl::MutexLock lock(&mutex_);
    if (value_ < value) {
      if (failure_.ok()) {
        callbacks_.emplace(value, std::move(callback));
        return;
      }
      outcome = failure_;
    }
  }
  callback(std::move(outcome));
}

}  // namespace kiln::runtime::host
