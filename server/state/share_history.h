// Who had how much of each device, second by second, for the last minutes.
//
// Somebody adds a sample each second: what each payer has had of each device since the start. Kept is the difference,
// in microseconds. A run is charged when it has ended, but what is worked on counts as it goes on (LineLook), so a long
// run is no gap with a peak behind it.
#ifndef KILN_SERVER_STATE_SHARE_HISTORY_H_
#define KILN_SERVER_STATE_SHARE_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kiln::server {

// Safe from any thread. At most kSamples × 4 bytes for each payer who used a device; of 64 devices and 256 payers
// together 12 MB.
class ShareHistory {
 public:
  static constexpr size_t kSamples = 180;

  explicit ShareHistory(size_t devices) : totals_(devices) {}

  // Of each device, nanoseconds by payer (server/fair/owner.h). A total that is less than before counts as the same:
  // what was worked on turned out to have taken less, and what comes next makes up for it.
  void Add(absl::Time now, const std::vector<std::vector<uint64_t>>& measured_ns);

  // Of a device, the last `samples`, as far as they are there.
  struct Used {
    double seconds = 0;            // that they cover
    std::vector<double> by_payer;  // seconds that each had
    double all = 0;
  };
  Used Over(size_t device, size_t samples) const;

  // Which part of each of them a payer had, the oldest first.
  std::vector<float> PartsOf(size_t device, size_t payer, size_t samples) const;

 private:
  struct Sample {
    absl::Duration span;
    std::vector<std::vector<uint32_t>> micros;  // by device and payer; who had nothing, and comes last, is left out
  };
  // The last `samples`, the oldest first.
  template <typename Seen>
  void ForEach(size_t samples, const Seen& seen) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::array<Sample, kSamples> samples_ ABSL_GUARDED_BY(mutex_);
  size_t count_ ABSL_GUARDED_BY(mutex_) = 0;  // ever
  absl::Time last_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::vector<std::vector<uint64_t>> totals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_STATE_SHARE_HISTORY_H_
