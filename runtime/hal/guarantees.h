// Parts of one device's memory that accounts may be sure of: nobody else takes the last of it while they have less.
//
// What an account has is counted as it was asked for; what an allocator rounds up is on top, and never
// taken from another account's part. Tested by server/engine/tenancy_test.
#ifndef KILN_RUNTIME_HAL_GUARANTEES_H_
#define KILN_RUNTIME_HAL_GUARANTEES_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/account.h"
#include "runtime/hal/buffer.h"

namespace kiln::runtime::hal {

class Allocator;
enum class MemoryUse;

// Safe from any thread. Accounts are known by their addresses.
class Guarantees {
 public:
  struct Part {
    uint64_t guaranteed = 0;
    uint64_t used = 0;
    uint64_t scratch = 0;  // beside that
  };

  // In place of those before. Takes nothing away: what others have of a part already, they have until they free it.
  void Set(const std::vector<std::pair<const Account*, uint64_t>>& guaranteed);

  Part Of(const Account* account) const;

  // What may free some memory of the device where there is too little, and is asked before that is said; null: nothing.
  // It must not ask for memory, nor block. Waits until the one before is not asked any more.
  void SetRelief(std::function<void()> relief);

  // A buffer of `allocator`, whose guarantees these are, counted as the account's until it is gone. A null account has
  // no guarantee. The allocator's errors; OUT_OF_MEMORY with the limit
  // "guaranteed_device_bytes" for what is guaranteed to others.
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(const Account* account, Allocator& allocator, uint64_t bytes,
                                                   MemoryUse use, MemoryDomain domain = MemoryDomain::kNobody);

 private:
  struct Owner {
    Account on_device;  // of its device_bytes, what is here
    Account scratch;    // the same of MemoryUse::kScratch: a part of what it may be sure of, but none of what it has
    uint64_t guaranteed = 0;
  };
  absl::StatusOr<std::shared_ptr<Buffer>> Try(const Account* account, Allocator& allocator, uint64_t bytes,
                                              MemoryUse use, MemoryDomain domain);
  Owner& OwnerOf(const Account* account) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of what others may be sure of, what they do not have.
  uint64_t KeptFrom(const Account* account) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<const Account*, std::unique_ptr<Owner>> owners_ ABSL_GUARDED_BY(mutex_);
  std::atomic<bool> any_{false};  // is guaranteed
  absl::Mutex relief_mutex_;      // held while it is asked
  std::function<void()> relief_ ABSL_GUARDED_BY(relief_mutex_);
};

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_GUARANTEES_H_
