// Calls what is due, on a thread: for the sequencers of all models, two of these.
//
// A sequencer owns no thread: a call on that thread may be the last to hold the sequencer, and a thread cannot join
// itself. One thread does what is short, such as to look which clients have gone. The other starts runs, and a run may
// be computed on the thread that starts it, for as long as the model takes; clients that have gone are still told.
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
  // `thread` is what the system calls its thread, in at most 15 letters; it lives for ever.
  explicit WakeUps(const char* thread) : name_(thread) {}
  // What is not due yet is not called any more. Blocks for the call that is under way.
  ~WakeUps();
  WakeUps(const WakeUps&) = delete;
  WakeUps& operator=(const WakeUps&) = delete;

  // Calls it once, at SteadyNow() `when` or soon after, on its thread; what is due first goes first. All others wait
  // until it returns. Whoever asks sees to it that not too many are waiting.
  void At(absl::Time when, absl::AnyInvocable<void()> call);

 private:
  void Work();

  const char* const name_;
  absl::Mutex mutex_;
  std::multimap<absl::Time, absl::AnyInvocable<void()>> calls_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_ ABSL_GUARDED_BY(mutex_);  // since the first call that was asked for
  Bell bell_;
};

// What the sequencers of all models share.
struct SequencerThreads {
  WakeUps watch{"kiln-sequences"};  // nothing here takes long
  WakeUps runs{"kiln-steps"};       // each starts so many runs at most, and then goes to the end
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_WAKE_UPS_H_
