// Lets calls into the server, counts those inside, and closes for good.
#ifndef KILN_SERVER_SERVICES_REQUESTS_GATE_H_
#define KILN_SERVER_SERVICES_REQUESTS_GATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace kiln::server {

// Safe from any thread.
class Gate {
 public:
  // A call that lasts until its client ends it, and so must hear that the gate closes.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void OnClosing() = 0;
  };
  // Tells it once, from Close or, if that has been, from here; unless it is gone by then.
  void Watch(const std::shared_ptr<Watcher>& watcher);

  // Whether the call may come in; if so, the caller must call Leave() once.
  bool Enter();
  void Leave();
  // A call that is not let in is here, until Leave(): its client is to hear why.
  void Stay() { inside_.fetch_add(1); }

  // The gate will close: calls still come in, and whoever asks for readiness hears that the server goes.
  void AnnounceClosing() { announced_.store(true, std::memory_order_release); }
  bool announced() const { return announced_.load(std::memory_order_acquire); }

  // From now on no call comes in.
  void Close();
  // After Close: waits until all calls have left, at most until `deadline`.
  // Whether they have.
  bool WaitEmpty(absl::Time deadline);

  bool closed() const { return closed_.load(std::memory_order_acquire); }

  // Calls that were refused since the start.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  int64_t inside() const { return inside_.load(std::memory_order_relaxed); }

 private:
  bool Empty() const { return inside_.load(std::memory_order_acquire) == 0; }

  std::atomic<int64_t> inside_{0};
  std::atomic<bool> announced_{false};
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> refused_{0};
  // Never held for long: its release wakes WaitEmpty.
  absl::Mutex mutex_;
  absl::Mutex watchers_mutex_;
  std::vector<std::weak_ptr<Watcher>> watchers_ ABSL_GUARDED_BY(watchers_mutex_);
  // When there are so many, those that are gone are forgotten.
  size_t tidy_at_ ABSL_GUARDED_BY(watchers_mutex_) = 64;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_REQUESTS_GATE_H_
