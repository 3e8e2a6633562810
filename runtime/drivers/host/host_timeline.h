// A timeline in host memory, for any driver.
#ifndef KILN_RUNTIME_DRIVERS_HOST_HOST_TIMELINE_H_
#define KILN_RUNTIME_DRIVERS_HOST_HOST_TIMELINE_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/hal/timeline.h"

namespace kiln::runtime::host {

// Destroying it fails what still waits by callback with CANCELLED; no thread
// may be blocked in Wait.
class HostTimeline final : public hal::Timeline {
 public:
  HostTimeline() = default;
  ~HostTimeline() override;

  uint64_t value() const override;
  void Signal(uint64_t value) override;
  void Fail(absl::Status status) override;
  absl::Status Wait(uint64_t value, absl::Time deadline) override;
  void OnReached(uint64_t value, absl::AnyInvocable<void(absl::Status)> callback) override;

 private:
  using Callbacks = std::multimap<uint64_t, absl::AnyInvocable<void(absl::Status)>>;

  mutable absl::Mutex mutex_;
  uint64_t value_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // OK while there is none
  Callbacks callbacks_ ABSL_GUARDED_BY(mutex_);   // those of values above value_
};

}  // namespace kiln::runtime::host

#endif  // KILN_RUNTIME_DRIVERS_HOST_HOST_TIMELINE_H_
