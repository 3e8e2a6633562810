// One who waits for what is made elsewhere, and for no longer than it is waited for itself.
//
// A cache tells all who wait when the value is there, and cannot be told that one of them has gone. So its waiter is
// an empty hull once its caller has been answered: whoever takes the callback first, the maker or the watch, calls it.
//
// Who joins what another has made is watched until it is there. Who has it made lends the maker a graph, a flag and
// more until it is answered, and so is watched only while the maker uses none of that: between WatchBy and StopWatch.
#ifndef KILN_SERVER_ENGINE_PROGRAMS_JOINER_H_
#define KILN_SERVER_ENGINE_PROGRAMS_JOINER_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/hal/module.h"
#include "server/engine/programs/compile_pool.h"

namespace kiln::server {

// Safe from any thread. `Callback` can be moved, and is null when it has been.
template <typename Callback>
class Joiner : public std::enable_shared_from_this<Joiner<Callback>> {
 public:
  explicit Joiner(Callback callback) : callback_(std::move(callback)) {}

  // The callback, for whoever calls it; null if it was taken before. From here on, `control` is looked at no more.
  Callback Take() { return End(/*take=*/true, /*by_watch=*/false).first; }

  // From now on answers by `off` when `control` says that nobody wants it any more. `pool` is there until all that is
  // made has been.
  template <typename Off>
  void WatchBy(CompilePool* pool, const runtime::hal::LaunchControl& control, Off off) {
    absl::MutexLock lock(&mutex_);
    if (callback_ == nullptr) return;
    pool_ = pool;
    waiting_ = pool->Watch(control, [self = this->shared_from_this(), off = std::move(off)]() mutable {
      if (Callback callback = self->End(/*take=*/true, /*by_watch=*/true).first; callback != nullptr) off(callback);
    });
  }

  // The watch answers nobody any more. Whether the callback is still there: if not, it has been called, or is, and all
  // that was lent until then may be gone.
  bool StopWatch() { return End(/*take=*/false, /*by_watch=*/false).second; }

 private:
  // Ends the watch; the callback, if it is to be taken, and whether it was there. A watch that comes when it has been
  // ended takes nothing.
  std::pair<Callback, bool> End(bool take, bool by_watch) {
    CompilePool* pool = nullptr;
    CompilePool::Waiting waiting;
    std::pair<Callback, bool> had = {nullptr, false};
    {
      absl::MutexLock lock(&mutex_);
      if (by_watch && pool_ == nullptr) return had;
      had.second = callback_ != nullptr;
      if (take) had.first = std::exchange(callback_, nullptr);
      pool = std::exchange(pool_, nullptr);
      waiting = std::exchange(waiting_, nullptr);
    }
    if (pool != nullptr) pool->Forget(waiting);
    return had;
  }

  absl::Mutex mutex_;
  Callback callback_ ABSL_GUARDED_BY(mutex_);
  CompilePool* pool_ ABSL_GUARDED_BY(mutex_) = nullptr;
  CompilePool::Waiting waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_PROGRAMS_JOINER_H_
