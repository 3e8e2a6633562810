// How often a model was asked, and where the time went.
#ifndef KILN_SERVER_MODELS_COUNTERS_H_
#define KILN_SERVER_MODELS_COUNTERS_H_

#include <algorithm>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kiln::server {

// Nanoseconds, all together.
struct ModelCounts {
  uint64_t succeeded = 0, failed = 0;
  uint64_t success_ns = 0, fail_ns = 0;
  // Parts of success_ns, which add up to it: waiting for a turn and in the device's queue; decoding and copying in;
  // running; and all else, which is copying out and making the answer.
  uint64_t queue_ns = 0, input_ns = 0, infer_ns = 0, output_ns = 0;
  int64_t last_ms = 0;  // since 1970
};

// Safe from any thread.
class ModelCounters {
 public:
  // A request that came at `begin` and took `whole`; negative parts are none, and none is longer than what is left.
  void Succeeded(absl::Time begin, absl::Duration whole, absl::Duration queue, absl::Duration input,
                 absl::Duration infer) {
    uint64_t left = Nanos(whole);
    const auto part = [&left](absl::Duration wanted) {
      const uint64_t got = std::min(left, Nanos(wanted));
      left -= got;
      return got;
    };
    absl::MutexLock lock(&mutex_);
    ++counts_.succeeded;
    counts_.success_ns += left;
    counts_.infer_ns += part(infer);
    counts_.queue_ns += part(queue);
    counts_.input_ns += part(input);
    counts_.output_ns += left;
    counts_.last_ms = absl::ToUnixMillis(begin);
  }

  void Failed(absl::Time begin, absl::Duration whole) {
    absl::MutexLock lock(&mutex_);
    ++counts_.failed;
    counts_.fail_ns += Nanos(whole);
    counts_.last_ms = absl::ToUnixMillis(begin);
  }

  ModelCounts counts() const {
    absl::MutexLock lock(&mutex_);
    return counts_;
  }

 private:
  static uint64_t Nanos(absl::Duration duration) {
    return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration)));
  }

  mutable absl::Mutex mutex_;
  ModelCounts counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_COUNTERS_H_
