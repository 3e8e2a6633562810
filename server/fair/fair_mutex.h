// A lock that passes from one to the other by their weights, in time that was measured (fair_queue.h): for
// work that must not go on beside its like, but can let another's go first now and then.
#ifndef KILN_SERVER_FAIR_FAIR_MUTEX_H_
#define KILN_SERVER_FAIR_FAIR_MUTEX_H_

#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/fair/fair_queue.h"

namespace kiln::server {

// Safe from any thread.
class FairMutex {
 public:
  // One who wants it now and then. Used by one thread; gives it back when it goes.
  class Holder {
   public:
    // `wanted` is OK as long as it is worth waiting; it is asked a few times a second.
    Holder(FairMutex& mutex, const FairOwner& owner, std::function<absl::Status()> wanted)
        : mutex_(mutex), owner_(owner), wanted_(std::move(wanted)) {}
    ~Holder() { Unlock(); }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

    // Waits until it has it; what `wanted` says if that ends first. Nothing if it has it.
    absl::Status Lock();
    // Nothing if it has not got it.
    void Unlock();
    // If it has had it for `slice`, lets whoever is next have it first. Else as Lock.
    absl::Status Yield(absl::Duration slice);
    // How long it has waited, ever.
    absl::Duration waited() const { return waited_; }

   private:
    friend class FairMutex;
    struct Place {
      FairQueue::Entry entry;  // first, so that the place is found by it
      bool has = false;        // of mutex_.mutex_
    };

    FairMutex& mutex_;
    const FairOwner owner_;
    const std::function<absl::Status()> wanted_;
    Place place_;
    bool held_ = false;
    absl::Time since_;
    absl::Duration waited_;
  };

  // So many wait.
  size_t waiting() const {
    absl::MutexLock lock(&mutex_);
    return queue_.waiting();
  }

 private:
  // Gives it to whoever is next, if nobody has it.
  void Serve() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  FairQueue queue_ ABSL_GUARDED_BY(mutex_){{.budget_ns = 0}};  // one at a time
};

}  // namespace kiln::server

#endif  // KILN_SERVER_FAIR_FAIR_MUTEX_H_
