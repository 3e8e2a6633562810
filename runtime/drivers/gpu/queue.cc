#include "runtime/drivers/gpu/queue.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"

namespace kiln::runtime::gpu {
namespace {

// Any: the queue has a thread of its own for all.
constexpr uint64_t kEstimateNs = 1000;

constexpr uint64_t kMaxBounce = 16 << 20;

Address AddressOf(const hal::BufferSlice& slice) { return reinterpret_cast<Address>(slice.device_data()); }

}  // namespace

void GpuQueue::Copy(hal::BufferSlice from, hal::BufferSlice to, hal::DoneCallback done) {
  if (absl::Status status = hal::CheckCopy(device_, from, to); !status.ok()) return done(std::move(status));
  Submit(
      [this, from = std::move(from), to = std::move(to), done = std::move(done)]() mutable {
        to.buffer->Changed();
        done(CopyNow(from, to));
      },
      kEstimateNs);
}

absl::Status GpuQueue::CopyNow(const hal::BufferSlice& from, const hal::BufferSlice& to) {
  Address bounce = 0;
  const uint64_t bounce_bytes = std::min(from.bytes, kMaxBounce);
  if (Transfers::NeedsBounce(AddressOf(from), AddressOf(to), from.bytes)) {
    KILN_ASSIGN_OR_RETURN(void* const scratch, device_->Scratch(bounce_bytes, nullptr, MemoryDomain::kServer));
    bounce = reinterpret_cast<Address>(scratch);
  }
  return transfers_.Inside(AddressOf(from), AddressOf(to), from.bytes, bounce, bounce_bytes);
}

void GpuQueue::Write(const void* from, hal::BufferSlice to, hal::DoneCallback done) {
  const absl::string_view piece(static_cast<const char*>(from), to.bytes);
  WritePieces({piece}, std::move(to), std::move(done));
}

void GpuQueue::WritePieces(std::vector<absl::string_view> pieces, hal::BufferSlice to, hal::DoneCallback done) {
  if (absl::Status status = hal::CheckPieces(device_, pieces, to); !status.ok()) return done(std::move(status));
  Submit(
      [this, pieces = std::move(pieces), to = std::move(to), done = std::move(done)]() mutable {
        to.buffer->Changed();
        done(transfers_.In(pieces, AddressOf(to)));
      },
      kEstimateNs);
}

void GpuQueue::Read(hal::BufferSlice from, void* to, hal::DoneCallback done) {
  if (absl::Status status = hal::CheckOn(device_, from); !status.ok()) return done(std::move(status));
  Submit(
      [this, from = std::move(from), to, done = std::move(done)]() mutable {
        absl::Status read = transfers_.Out(AddressOf(from), to, from.bytes);
        from = hal::BufferSlice();
        done(std::move(read));
      },
      kEstimateNs);
}

void GpuQueue::Fill(hal::BufferSlice to, absl::string_view pattern, hal::DoneCallback done) {
  if (absl::Status status = hal::CheckOn(device_, to); !status.ok()) return done(std::move(status));
  Submit(
      [this, to = std::move(to), pattern = std::string(pattern), done = std::move(done)]() mutable {
        to.buffer->Changed();
        done(transfers_.Fill(AddressOf(to), to.bytes, pattern));
      },
      kEstimateNs);
}

}  // namespace kiln::runtime::gpu
