// Calls what is due: for the sequencers of all models, one thread.
//
// A sequencer has none of its own, for its last user may be whoever it calls, and a thread cannot wait for its own end.
#ifndef KILN_SERVER_MODELS_SEQUENCES_WAKE_UPS_H_
#define KILN_SERVER_MODELS_SEQUENCES_WAKE_UPS_H_

#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"

namespace kiln::server {

// Safe from any thread.
class WakeUps {
 public:
  WakeUps() = default;
  // What is not due yet is not called any more. Blocks for the call that is under way.
  ~WakeUps();
  WakeUps(const WakeUps&) = delete;
  WakeUps& operator=(const WakeUps&) = delete;

  // Calls it once, at SteadyNow() `when` or soon after, on its thread; it must not block. Whoever asks sees to it that
  // not too many are waiting.
  void At(absl::Time when, absl::AnyInvocable<void()> call);

 private:
  void Work();

  absl::Mutex mutex_;
  std::multimap<absl::Time, absl::AnyInvocable<void()>> calls_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // since the first call that was asked for
  Bell bell_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_WAKE_UPS_H_
