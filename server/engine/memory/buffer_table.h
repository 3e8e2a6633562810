// Which handle stands for which memory.
//
// A handle is a random 64-bit number. Behind it is a BufferRecord, which never
// changes: a slice of device memory and what it is said to hold. A view is
// another record over the same memory. The memory goes back to the device with
// the last record, running program or transfer that holds it, so freeing a
// handle while a program uses its memory is safe.
#ifndef KILN_SERVER_ENGINE_MEMORY_BUFFER_TABLE_H_
#define KILN_SERVER_ENGINE_MEMORY_BUFFER_TABLE_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "kiln/v1/dtype.pb.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/device.h"
#include "server/engine/memory/poison.h"
#include "server/engine/memory/random_handles.h"
#include "server/engine/memory/session.h"

namespace kiln::server {

using Shape = absl::InlinedVector<int64_t, 6>;

struct BufferRecord {
  runtime::hal::BufferSlice slice;
  // Not owned; the engine's devices outlive its table.
  runtime::hal::Device* device = nullptr;
  // DTYPE_UNSPECIFIED if it is not known what the bytes are.
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  Shape shape;
  // The handle this one was made from as a view; 0 if it was not.
  uint64_t view_of = 0;
  // Ends with it; null if it has no owner, or a name among its owner's names().
  SessionPtr owner;
  // Shared by all handles of the memory; null: nothing ever befalls it.
  PoisonPtr poison;
};

// The memory that goes with it, if nothing else has it: a view has none of its own.
inline uint64_t OwnBytes(const BufferRecord& record) { return record.view_of != 0 ? 0 : record.slice.bytes; }

// A record takes memory of the host's, whatever it stands for.
struct HandleLimits {
  uint64_t all = 1 << 20;
  uint64_t of_session = 1 << 18;
};

// The record's bytes from its slice's byte `offset` on, which it has.
Extent ExtentIn(const BufferRecord& record, uint64_t offset, uint64_t bytes);

// Safe from any thread. Cut into shards by handle, each with its own lock.
class BufferTable {
 public:
  using Record = std::shared_ptr<const BufferRecord>;

  explicit BufferTable(HandleLimits limits = {}) : limits_(limits) {}

  // Files the record, which is not null, under a new handle. TooManyHandles();
  // UnknownSession() if its owner has ended.
  absl::StatusOr<uint64_t> Add(Record record);

  // Takes a name for what `owner` is about to make: HandleTaken(), TooManyHandles(),
  // UnknownSession(). Until its names() are told the record, it stands for nothing.
  absl::StatusOr<PoisonPtr> Reserve(uint64_t handle, Session& owner);

  // After Reserve has refused that: what poisons the name from now on (HandleNames::Refuse); null if it stands for
  // something.
  PoisonPtr Refuse(uint64_t handle, Session& owner);

  // What `caller`, which may be null, is shown: what it owns, and what has no
  // owner. All else is UNKNOWN_HANDLE naming the handle, or HANDLE_FREED for a
  // name of its own that it has freed. A name for which a failed command has made no
  // memory fails with the cause's status; the reader must ask whether bytes of memory
  // that is there are poisoned (poison.h).
  absl::StatusOr<Record> Find(uint64_t handle, const Session* caller = nullptr) const;

  // All of them or, if `caller` knows one of them not or names it twice, none:
  // UNKNOWN_HANDLE, or HANDLE_FREED for a name that it has freed.
  absl::Status Free(absl::Span<const uint64_t> handles, Session* caller = nullptr);

  // The bytes of a handle that `caller` is shown, as poison knows them: `bytes` from byte
  // `offset` on, or all to the end for absl::nullopt; the whole handle if it has not got
  // these; kEnd bytes of a name that stands for no memory yet, with `made` false.
  // Without poison if there is no such handle.
  struct Shown {
    Extent extent;
    bool made = true;
  };
  Shown ExtentOf(uint64_t handle, uint64_t offset, absl::optional<uint64_t> bytes, const Session* caller) const;

  // Frees all that a session owns, and owns from now on: nothing.
  void End(Session& session);

  uint64_t size() const { return size_.load(std::memory_order_relaxed); }

 private:
  static constexpr size_t kShards = 32;
  struct alignas(64) Shard {
    mutable absl::Mutex mutex;
    absl::flat_hash_map<uint64_t, Record> records ABSL_GUARDED_BY(mutex);
  };
  // What the server named; null if there is none for `caller`.
  Record Show(uint64_t handle, const Session* caller) const;
  absl::Status FreeOwn(absl::Span<const uint64_t> handles, const Session* caller);
  static size_t ShardOf(uint64_t handle) { return handle % kShards; }

  const HandleLimits limits_;
  std::array<Shard, kShards> shards_;
  RandomHandles names_;
  // Raised before a record is filed.
  std::atomic<uint64_t> size_{0};
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_BUFFER_TABLE_H_
