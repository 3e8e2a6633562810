// For how long a run had cores, where the system gave them to other threads meanwhile.
//
// The threads of a run share the cores of a CPU with all else there is. A system that has threads wait for its tick has
// a run stand still for 4 ms or more now and then: time in which it did nothing, and for which its tenant is not to
// blame. So what counts is the time that the run's thread had on a core, and beyond it what a helper had longer, for
// which it waited: that is what the run would have taken if nobody had come between.
#ifndef KILN_RUNTIME_HAL_CORE_TIME_H_
#define KILN_RUNTIME_HAL_CORE_TIME_H_

#include <time.h>

#include <atomic>
#include <cstdint>

#include "absl/time/time.h"

namespace kiln::runtime::hal {

// Of what a thread does in pieces, one after the other. For that thread, but where it says otherwise.
class CoreTime {
 public:
  // A piece begins; and has ended, if one has begun. Each asks the system for the time, some hundreds of ns.
  void Begin();
  void End();
  bool counts() const { return counts_; }
  // So much more than this thread had a helper of it, in something that both did. Within a piece.
  void Helped(int64_t more_ns) { helped_ns_ += more_ns; }

  // What the last piece had is counted elsewhere, and SoFar does not tell it any more.
  void Forget() { had_ns_.store(kNothing, std::memory_order_relaxed); }

  // Of the last piece, no more than passed by the clock. Until Forget.
  absl::Duration had() const { return absl::Nanoseconds(had_ns_.load(std::memory_order_relaxed)); }
  // In all pieces together, for how long it stood still.
  absl::Duration kept() const { return kept_; }

  // What the thread has had since its piece began, and what it had once that has ended; negative if none has begun, or
  // that is forgotten. Never less than before in one piece. Any thread.
  absl::Duration SoFar() const;

  // For how long the calling thread has had a core, ever; some hundreds of ns.
  static int64_t ThreadNs();

 private:
  static constexpr clockid_t kNone = 0x7fffffff;
  static constexpr int64_t kNothing = -1;

  absl::Time began_;
  absl::Duration kept_;
  int64_t helped_ns_ = 0;
  bool counts_ = false;
  std::atomic<int64_t> thread_began_ns_{0};
  std::atomic<int64_t> had_ns_{kNothing};
  std::atomic<clockid_t> clock_{kNone};  // the thread's, in a piece
};

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_CORE_TIME_H_
