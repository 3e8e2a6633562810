// How often a model was asked, by whom, and where the time went.
#ifndef KILN_SERVER_MODELS_COUNTERS_H_
#define KILN_SERVER_MODELS_COUNTERS_H_

#include <algorithm>
#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/account.h"

namespace kiln::server {

// Runs that answered so many requests together.
struct BatchCounts {
  uint64_t runs = 0;
  // Of the request that each began with: parts as below.
  uint64_t input_ns = 0, infer_ns = 0, output_ns = 0;
};

// Nanoseconds, all together.
struct ModelCounts {
  uint64_t succeeded = 0, failed = 0;
  uint64_t runs = 0;  // that answered those
  uint64_t success_ns = 0, fail_ns = 0;
  // Parts of success_ns, which add up to it: waiting for a turn and in the device's queue; decoding and copying in;
  // running; and all else, which is copying out and making the answer.
  uint64_t queue_ns = 0, input_ns = 0, infer_ns = 0, output_ns = 0;
  int64_t last_ms = 0;  // since 1970
  // By how many requests each answered; kMostBatch stands for more, too.
  static constexpr uint32_t kMostBatch = 1024;
  std::map<uint32_t, BatchCounts> batches;

  void Add(const ModelCounts& other) {
    succeeded += other.succeeded;
    failed += other.failed;
    runs += other.runs;
    success_ns += other.success_ns;
    fail_ns += other.fail_ns;
    queue_ns += other.queue_ns;
    input_ns += other.input_ns;
    infer_ns += other.infer_ns;
    output_ns += other.output_ns;
    last_ms = std::max(last_ms, other.last_ms);
    for (const auto& [size, counts] : other.batches) {
      BatchCounts& own = batches[size];
      own.runs += counts.runs;
      own.input_ns += counts.input_ns;
      own.infer_ns += counts.infer_ns;
      own.output_ns += counts.output_ns;
    }
  }
};

// By account of who asked, null for callers that have none. Safe from any thread.
class ModelCounters {
 public:
  // A request that came at `begin` and took `whole`, in a run that answered `batch` requests, or 0 for all of these but
  // the first; negative parts are none, and none is longer than what is left.
  void Succeeded(const Account* account, uint32_t batch, absl::Time begin, absl::Duration whole, absl::Duration queue,
                 absl::Duration input, absl::Duration infer) {
    uint64_t left = Nanos(whole);
    const auto part = [&left](absl::Duration wanted) {
      const uint64_t got = std::min(left, Nanos(wanted));
      left -= got;
      return got;
    };
    absl::MutexLock lock(&mutex_);
    ModelCounts& counts = counts_[account];
    ++counts.succeeded;
    counts.success_ns += left;
    const uint64_t infer_ns = part(infer);
    counts.infer_ns += infer_ns;
    counts.queue_ns += part(queue);
    const uint64_t input_ns = part(input);
    counts.input_ns += input_ns;
    counts.output_ns += left;
    counts.last_ms = absl::ToUnixMillis(begin);
    if (batch == 0) return;
    ++counts.runs;
    BatchCounts& of_size = counts.batches[std::min(batch, ModelCounts::kMostBatch)];
    ++of_size.runs;
    of_size.input_ns += input_ns;
    of_size.infer_ns += infer_ns;
    of_size.output_ns += left;
  }

  void Failed(const Account* account, absl::Time begin, absl::Duration whole) {
    absl::MutexLock lock(&mutex_);
    ModelCounts& counts = counts_[account];
    ++counts.failed;
    counts.fail_ns += Nanos(whole);
    counts.last_ms = absl::ToUnixMillis(begin);
  }

  ModelCounts CountsOf(const Account* account) const {
    absl::MutexLock lock(&mutex_);
    const auto found = counts_.find(account);
    return found == counts_.end() ? ModelCounts() : found->second;
  }
  ModelCounts all() const {
    ModelCounts all;
    absl::MutexLock lock(&mutex_);
    for (const auto& [account, counts] : counts_) all.Add(counts);
    return all;
  }

 private:
  static uint64_t Nanos(absl::Duration duration) {
    return static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(duration)));
  }

  mutable absl::Mutex mutex_;
  // As many as there are tenants.
  absl::flat_hash_map<const Account*, ModelCounts> counts_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_COUNTERS_H_
