#include "server/compile_worker/quarantine.h"

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {

absl::Status Quarantine::Check(const Digest& job, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  const auto found = rows_.find(job);
  if (found == rows_.end() || found->second.faults < kChances) return absl::OkStatus();
  const absl::Duration left = found->second.last + kTime - now;
  if (left <= absl::ZeroDuration()) {
    found->second.faults = 0;
    return absl::OkStatus();
  }
  v1::ErrorDetail detail;
  detail.set_code(v1::COMPILER_FAULT);
  detail.set_retry_after_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(left)));
  return MakeError(detail, absl::StrCat("compiling this graph has failed ", kChances,
                                        " times without an answer; it is not tried again for ",
                                        absl::FormatDuration(absl::Ceil(left, absl::Seconds(1)))));
}

bool Quarantine::Empty(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  // One that has failed again since is not the oldest any more, and has those behind it wait: for an hour at most.
  while (!order_.empty() && rows_[order_.front()].last + kTime <= now) {
    rows_.erase(order_.front());
    order_.pop_front();
  }
  return rows_.empty();
}

void Quarantine::Note(const Digest& job, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  if (rows_.find(job) == rows_.end()) {
    if (order_.size() >= kMaxJobs) {
      rows_.erase(order_.front());
      order_.pop_front();
    }
    order_.push_back(job);
  }
  Row& row = rows_[job];
  ++row.faults;
  row.last = now;
}

}  // namespace kiln::server
