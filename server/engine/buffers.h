// What clients do with device memory: the engine's half of BufferService.
//
// Every transfer is an entry of its device's queue, so it sees what was
// submitted before it and is seen by what comes after: a write that has been
// answered is seen by any later Execute, and a read after an Execute's answer
// sees its results.
#ifndef KILN_SERVER_ENGINE_BUFFERS_H_
#define KILN_SERVER_ENGINE_BUFFERS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"
#include "runtime/collective/meeting.h"
#include "runtime/hal/device.h"
#include "runtime/hal/queue.h"
#include "server/engine/executions/requests.h"
#include "server/engine/memory/buffer_table.h"
#include "server/fair/turns.h"

namespace kiln::server {

struct NamedBuffer {
  uint64_t handle = 0;
  BufferTable::Record record;
};

// Safe from any thread. Callbacks come exactly once, on the asking thread or the
// device's, and must not block.
class Buffers {
 public:
  using Done = runtime::hal::DoneCallback;
  using FindDevice = FindDeviceFn;

  // `table`, `meetings` and `turns` outlive this.
  Buffers(BufferTable* table, runtime::collective::Meetings* meetings, Turns* turns, absl::Duration timeout,
          FindDevice find_device);

  // `caller`, which may be null, owns what these make, and knows the handles
  // that it owns and those without an owner. UnknownSession() if it has ended.
  //
  // Zeroed memory. SIZE_OVERFLOW, OUT_OF_MEMORY, QUOTA_EXCEEDED, UNKNOWN_DEVICE.
  absl::StatusOr<NamedBuffer> Allocate(absl::string_view device, uint64_t bytes, SessionPtr caller = nullptr);
  absl::StatusOr<NamedBuffer> Allocate(absl::string_view device, v1::DType dtype, absl::Span<const int64_t> shape,
                                       SessionPtr caller = nullptr);

  // A second handle for `bytes` bytes, or for all that are left if that is 0. A
  // dtype and shape, if given, decide the size, and `bytes` must agree or be 0.
  absl::StatusOr<NamedBuffer> View(const BufferAddress& of, uint64_t bytes, v1::DType dtype,
                                   absl::Span<const int64_t> shape, SessionPtr caller = nullptr);

  // The same for memory that `owner` names itself: `handle` is reserved (buffer_table.h),
  // and `poison` is what Reserve gave.
  absl::Status AllocateAs(uint64_t handle, PoisonPtr poison, absl::string_view device, uint64_t bytes, Session& owner);
  absl::Status AllocateAs(uint64_t handle, PoisonPtr poison, absl::string_view device, v1::DType dtype,
                          absl::Span<const int64_t> shape, Session& owner);
  absl::Status ViewAs(uint64_t handle, const BufferAddress& of, uint64_t bytes, v1::DType dtype,
                      absl::Span<const int64_t> shape, Session& owner);

  BufferTable& table() { return *table_; }

  absl::Status Free(absl::Span<const uint64_t> handles, Session* caller = nullptr) {
    return table_->Free(handles, caller);
  }

  absl::StatusOr<NamedBuffer> Describe(uint64_t handle, const Session* caller = nullptr) const;
  uint64_t count() const { return table_->size(); }

  // A range of a buffer, checked; `bytes` of absl::nullopt means to the end.
  // UNKNOWN_HANDLE, OUT_OF_BOUNDS. The slice keeps the memory. Whether it is poisoned is
  // not asked.
  struct Range {
    runtime::hal::BufferSlice slice;
    runtime::hal::Device* device = nullptr;
    PoisonPtr poison;

    Extent extent() const { return {poison, slice.offset, slice.offset + slice.bytes}; }
  };
  absl::StatusOr<Range> Resolve(const BufferAddress& address, absl::optional<uint64_t> bytes,
                                const Session* caller = nullptr) const;

  // The ranges may overlap. Between two devices it is a meeting of both queues (meeting.h): it
  // fails with PARTICIPANT_MISSING if one does not come for too long, and what is to come after it
  // is begun once it has ended.
  void Copy(const BufferAddress& from, const BufferAddress& to, uint64_t bytes, const Session* caller,
            const Control& control, Done done);
  // Whether such a copy is one between two devices.
  bool IsBetweenDevices(const BufferAddress& from, const BufferAddress& to, const Session* caller) const;
  // A pattern of 1, 2, 4 or 8 bytes over a whole number of its lengths; 0 bytes
  // means to the end.
  void Fill(const BufferAddress& to, uint64_t bytes, absl::string_view pattern, const Session* caller,
            const Control& control, Done done);

 private:
  // Between two devices.
  void CopyInTurn(Range source, Range target, const Control& control, Done done);
  using NewRecord = std::shared_ptr<BufferRecord>;
  // Records without an owner, not filed yet.
  absl::StatusOr<NewRecord> New(absl::string_view device, uint64_t bytes, v1::DType dtype,
                                absl::Span<const int64_t> shape, const Session* payer) const;
  absl::StatusOr<NewRecord> NewView(const BufferAddress& of, uint64_t bytes, v1::DType dtype,
                                    absl::Span<const int64_t> shape, const Session* caller) const;
  absl::StatusOr<NamedBuffer> File(absl::StatusOr<NewRecord> record, SessionPtr owner);

  BufferTable* const table_;
  runtime::collective::Meetings* const meetings_;
  Turns* const turns_;
  const absl::Duration timeout_;
  const FindDevice find_device_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_BUFFERS_H_
