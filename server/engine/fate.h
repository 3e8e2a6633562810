// Poison: what became of memory that a failed command would have made or written.
//
// A client that sends commands without waiting has sent many more by the time one of
// them fails. Those that use what it left undone must not run on stale bytes, and must
// say what went wrong first rather than what came of it. So memory has a fate, which
// all its handles share, and which a failure spoils once and for all.
#ifndef KILN_SERVER_ENGINE_FATE_H_
#define KILN_SERVER_ENGINE_FATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace kiln::server {

// The command that went wrong first.
struct Cause {
  uint64_t command_id = 0;
  std::string tag;
  absl::Status status;
};
using CausePtr = std::shared_ptr<const Cause>;

// Safe from any thread.
class Fate {
 public:
  // Null while all is well.
  CausePtr cause() const {
    if (!spoilt_.load(std::memory_order_acquire)) return nullptr;
    absl::MutexLock lock(&mutex_);
    return cause_;
  }
  // The first stays.
  void Spoil(CausePtr cause) {
    absl::MutexLock lock(&mutex_);
    if (cause_ == nullptr) cause_ = std::move(cause);
    spoilt_.store(true, std::memory_order_release);
  }

 private:
  std::atomic<bool> spoilt_{false};
  mutable absl::Mutex mutex_;
  CausePtr cause_ ABSL_GUARDED_BY(mutex_);
};
using FatePtr = std::shared_ptr<Fate>;

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_FATE_H_
