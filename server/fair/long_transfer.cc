#include "server/fair/long_transfer.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "runtime/drivers/host/fill_bytes.h"
#include "runtime/hal/wanted_copy.h"
#include "server/fair/lane.h"

namespace kiln::server {
namespace {

using runtime::hal::BufferSlice;
using runtime::hal::CopyWhileWanted;
using runtime::hal::Device;
using runtime::hal::DoneCallback;
using runtime::hal::LaunchControl;

// Only memory that the host sees can be copied in pieces.
bool IsLong(const BufferSlice& slice) {
  return slice.bytes > runtime::hal::kMaxUnwatched && slice.host_data() != nullptr;
}

// As work of the queue, whose outcome is that of `work`; what that holds is free by then.
void Submit(Device& device, uint64_t bytes, absl::AnyInvocable<absl::Status()> work, DoneCallback done) {
  device.queue().Submit(
      [work = std::move(work), done = std::move(done)]() mutable {
        absl::Status status = work();
        work = nullptr;
        done(std::move(status));
      },
      TransferNs(bytes));
}

}  // namespace

void LongCopy(Device& device, BufferSlice from, BufferSlice to, const LaunchControl& control, DoneCallback done) {
  if (!IsLong(from) || !IsLong(to)) return device.queue().Copy(std::move(from), std::move(to), std::move(done));
  if (absl::Status bad = CheckCopy(&device, from, to); !bad.ok()) return done(std::move(bad));
  const uint64_t bytes = from.bytes;
  Submit(
      device, bytes,
      [from = std::move(from), to = std::move(to), control] {
        to.buffer->Changed();
        return CopyWhileWanted(to.host_data(), from.host_data(), to.bytes, control);
      },
      std::move(done));
}

void LongWrite(Device& device, const void* from, BufferSlice to, const LaunchControl& control, DoneCallback done) {
  if (!IsLong(to)) return device.queue().Write(from, std::move(to), std::move(done));
  if (absl::Status bad = CheckOn(&device, to); !bad.ok()) return done(std::move(bad));
  const uint64_t bytes = to.bytes;
  Submit(
      device, bytes,
      [from, to = std::move(to), control] {
        to.buffer->Changed();
        return CopyWhileWanted(to.host_data(), from, to.bytes, control);
      },
      std::move(done));
}

void LongRead(Device& device, BufferSlice from, void* to, const LaunchControl& control, DoneCallback done) {
  if (!IsLong(from)) return device.queue().Read(std::move(from), to, std::move(done));
  if (absl::Status bad = CheckOn(&device, from); !bad.ok()) return done(std::move(bad));
  const uint64_t bytes = from.bytes;
  Submit(
      device, bytes,
      [from = std::move(from), to, control] { return CopyWhileWanted(to, from.host_data(), from.bytes, control); },
      std::move(done));
}

void LongFill(Device& device, BufferSlice to, absl::string_view pattern, const LaunchControl& control,
              DoneCallback done) {
  // Pieces are whole numbers of patterns.
  if (!IsLong(to) || pattern.empty() || runtime::hal::kWantedPiece % pattern.size() != 0)
    return device.queue().Fill(std::move(to), pattern, std::move(done));
  if (absl::Status bad = CheckOn(&device, to); !bad.ok()) return done(std::move(bad));
  const uint64_t bytes = to.bytes;
  Submit(
      device, bytes,
      [to = std::move(to), pattern = std::string(pattern), control] {
        to.buffer->Changed();
        auto* const memory = static_cast<char*>(to.host_data());
        return InWantedPieces(to.bytes, control, [&](uint64_t begin, uint64_t end) {
          runtime::host::FillBytes(memory + begin, end - begin, pattern);
        });
      },
      std::move(done));
}

}  // namespace kiln::server
