// The names that a client gives to what it makes.
//
// A client that sends commands without waiting for answers must know what its buffers
// are called before the server has made them, so it names them itself. Names are a
// session's own: two sessions may use the same, and neither sees the other's.
#ifndef KILN_SERVER_ENGINE_MEMORY_HANDLE_NAMES_H_
#define KILN_SERVER_ENGINE_MEMORY_HANDLE_NAMES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "base/account.h"
#include "server/engine/memory/poison.h"

namespace kiln::server {

struct BufferRecord;

// How many freed names are remembered, to tell a use after its end from a name that
// never was.
inline constexpr size_t kFreedNames = 1024;
// How many names that were refused are remembered, for the commands that use them all the same.
inline constexpr size_t kRefusedNames = 256;

// A handle of this name, or of the server's, is there already: HANDLE_TAKEN. For 0,
// which names nothing: BAD_ARGUMENT.
absl::Status HandleTaken(uint64_t handle);

// What a name stands for. Without a record: a command that has failed, or is about to,
// would have made it, or was refused the name.
struct NamedRecord {
  std::shared_ptr<const BufferRecord> record;
  PoisonPtr poison;
};

// Safe from any thread.
class HandleNames {
 public:
  // `account`, which may be null, pays for each, and outlives this.
  explicit HandleNames(Account* account = nullptr) : charge_(ChargeOf(account, Quota::kHandles)) {}

  // HandleTaken(). TooManyHandles() if there are `max_handles`; QUOTA_EXCEEDED.
  absl::Status Add(uint64_t handle, NamedRecord named, uint64_t max_handles);
  // Whether `handle` is there; then `named` is set.
  bool Find(uint64_t handle, NamedRecord& named) const;
  bool WasFreed(uint64_t handle) const;

  // After Add has refused it: remembers that the name stands for nothing, until it is added or freed, or so many
  // have been refused since. What poisons it; null for 0 and for a name that is there.
  PoisonPtr Refuse(uint64_t handle);

  // Gives a name that was added without a record its record, unless it is gone.
  void Make(uint64_t handle, std::shared_ptr<const BufferRecord> record);

  // Takes those of `handles` out that are there, and remembers them as freed; how many. One that was refused is
  // freed, too, and not counted.
  size_t Free(absl::Span<const uint64_t> handles);

  // For people: Session::use(), of these.
  struct Use {
    uint64_t handles = 0;
    uint64_t bytes = 0;
  };
  Use use() const {
    absl::MutexLock lock(&mutex_);
    return {named_.size(), bytes_};
  }

  // Takes all out; how many. From now on nothing can be added.
  size_t End();

 private:
  // Whether it was remembered as refused, and is not any more.
  bool ForgetRefused(uint64_t handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  absl::flat_hash_map<uint64_t, NamedRecord> named_ ABSL_GUARDED_BY(mutex_);
  Charge charge_ ABSL_GUARDED_BY(mutex_);       // for these
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of their memory, but for views
  // How often each is in the queue; one that was given again is not freed.
  absl::flat_hash_map<uint64_t, uint32_t> freed_ ABSL_GUARDED_BY(mutex_);
  std::deque<uint64_t> freed_order_ ABSL_GUARDED_BY(mutex_);
  // None of them is in named_; the oldest first.
  std::deque<std::pair<uint64_t, PoisonPtr>> refused_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_HANDLE_NAMES_H_
