// The last calls that took longer than a person wants to hear of.
#ifndef KILN_SERVER_STATE_SLOW_CALLS_H_
#define KILN_SERVER_STATE_SLOW_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/trace/traces.h"

namespace kiln::server {

struct SlowCall {
  absl::string_view method;  // "KernelService.Execute"; lives for ever
  CallRecord record;
};

// Safe from any thread; a call that is not slow takes no lock.
class SlowCalls {
 public:
  static constexpr size_t kKept = 100;

  // Those that take `after` or longer; zero: none.
  explicit SlowCalls(absl::Duration after) : after_(after) {}

  absl::Duration after() const { return after_; }
  bool IsSlow(absl::Duration took) const { return after_ > absl::ZeroDuration() && took >= after_; }

  void Keep(const SlowCall& call) {
    absl::MutexLock lock(&mutex_);
    calls_.push_front(call);
    if (calls_.size() > kKept) calls_.pop_back();
    ++seen_;
  }

  // The latest first: `owner`'s (traces.h), or all.
  std::vector<SlowCall> List(std::optional<uint32_t> owner) const {
    std::vector<SlowCall> list;
    absl::MutexLock lock(&mutex_);
    for (const SlowCall& call : calls_) {
      if (!owner.has_value() || call.record.owner == *owner) list.push_back(call);
    }
    return list;
  }
  // Since the start.
  uint64_t seen() const {
    absl::MutexLock lock(&mutex_);
    return seen_;
  }

 private:
  const absl::Duration after_;
  mutable absl::Mutex mutex_;
  std::deque<SlowCall> calls_ ABSL_GUARDED_BY(mutex_);
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_STATE_SLOW_CALLS_H_
