// The shared memory of all clients, by handle.
//
// A region is reserved by a call, which says who the client is, and brought by a
// connection of a Unix socket (listener.h), which is how a file changes hands. It lives as
// long as that connection: a client that dies takes its memory along.
#ifndef KILN_SERVER_SHARED_MEMORY_REGIONS_H_
#define KILN_SERVER_SHARED_MEMORY_REGIONS_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/memory/random_handles.h"
#include "server/engine/memory/session.h"
#include "server/shared_memory/region.h"

namespace kiln::server {

// Of all clients together.
inline constexpr size_t kMaxRegions = 256;

// Bytes of a region, which it keeps.
struct SharedBytes {
  std::shared_ptr<SharedRegion> region;
  char* data = nullptr;
};

// Safe from any thread.
class SharedRegions {
 public:
  // `max_bytes`: of all regions together. `timeout`: how long a reservation waits for
  // its memory.
  explicit SharedRegions(uint64_t max_bytes, absl::Duration timeout) : max_bytes_(max_bytes), timeout_(timeout) {}

  // A name for `bytes` bytes that will be brought. `caller`, which may be null, alone
  // can use them. BAD_ARGUMENT for 0 bytes; OUT_OF_MEMORY with the limit "shared
  // memory bytes" or "shared memory regions"; QUOTA_EXCEEDED.
  absl::StatusOr<uint64_t> Reserve(uint64_t bytes, SessionPtr caller);

  // Takes the memory that was reserved; `memfd` stays the caller's to close.
  // UNKNOWN_HANDLE for a name that awaits none; BAD_SHARED_MEMORY.
  absl::Status Bring(uint64_t handle, int memfd);

  // Forgets a region. Transfers that are under way end first.
  void Drop(uint64_t handle);

  // The same of all regions of these tenants.
  void Forget(const std::set<std::string, std::less<>>& tenants);

  // UNKNOWN_HANDLE, OUT_OF_BOUNDS.
  absl::StatusOr<SharedBytes> Find(uint64_t handle, uint64_t offset, uint64_t bytes, const Session* caller) const;

  absl::Duration timeout() const { return timeout_; }
  // Mapped or reserved.
  uint64_t bytes() const;

 private:
  struct Row {
    SessionPtr owner;
    uint64_t bytes = 0;
    absl::Time reserved;
    bool awaited = true;                   // no memfd has come
    std::shared_ptr<SharedRegion> region;  // null until it is mapped
    Charge one_region = {}, its_bytes = {};
  };
  using Rows = absl::flat_hash_map<uint64_t, Row>;
  void Erase(Rows::iterator row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees reservations whose time is over.
  void Sweep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint64_t max_bytes_;
  const absl::Duration timeout_;
  RandomHandles names_;
  mutable absl::Mutex mutex_;
  Rows rows_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SHARED_MEMORY_REGIONS_H_
