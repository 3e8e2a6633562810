#include "runtime/collective/by_host.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::runtime::collective {
namespace {

// Of one window's widest part. Longer ones travel no faster.
constexpr uint64_t kMaxPieceBytes = 4 << 20;
constexpr uint64_t kPartsOfWindow = 3;

// Not cleared: that would cost as much as the copy does. Null if there is none.
std::unique_ptr<char[]> Take(uint64_t bytes) { return std::unique_ptr<char[]>(new (std::nothrow) char[bytes]); }

absl::Status NoMemory(uint64_t bytes) {
  v1::ErrorDetail detail;
  detail.set_code(v1::OUT_OF_MEMORY);
  detail.set_limit("host memory bytes of a collective");
  detail.set_limit_value(ByHost::kMaxBytes);
  return MakeError(std::move(detail), absl::StrCat("the host has no ", bytes,
                                                   " bytes for a collective of devices whose memory it does not see; "
                                                   "nothing was written"));
}

}  // namespace

ByHost::ByHost(const Job& job, std::vector<Place> inputs, std::vector<Place> outputs)
    : job_(job), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

absl::StatusOr<std::unique_ptr<ByHost>> ByHost::Make(const Job& job, std::vector<Place> inputs,
                                                     std::vector<Place> outputs) {
  std::unique_ptr<ByHost> made(new ByHost(job, std::move(inputs), std::move(outputs)));
  KILN_RETURN_IF_ERROR(made->TakeWindows());
  return made;
}

absl::Status ByHost::TakeWindows() {
  const Arithmetic* const arithmetic = job_.arithmetic;
  const uint64_t widest = arithmetic == nullptr ? job_.item_bytes : std::max(arithmetic->acc_bytes, job_.item_bytes);
  const uint64_t piece_bytes = std::min(kMaxPieceBytes, kMaxBytes / kPartsOfWindow / job_.ranks);
  // Few elements are shared out as well.
  const uint64_t even = (job_.count + job_.ranks - 1) / job_.ranks;
  piece_ = std::clamp<uint64_t>(even, 1, piece_bytes / widest);
  for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
    Window& window = windows_.emplace_back();
    window.items = Take(piece_ * job_.item_bytes);
    if (window.items == nullptr) return NoMemory(piece_ * job_.item_bytes);
    if (arithmetic == nullptr) continue;
    window.total = Take(piece_ * arithmetic->acc_bytes);
    if (window.total == nullptr) return NoMemory(piece_ * arithmetic->acc_bytes);
    if (arithmetic->acc_bytes == job_.item_bytes) continue;
    window.more = Take(piece_ * arithmetic->acc_bytes);
    if (window.more == nullptr) return NoMemory(piece_ * arithmetic->acc_bytes);
  }
  return absl::OkStatus();
}

absl::Status ByHost::Run(uint32_t rank) {
  const uint64_t pieces = (job_.count + piece_ - 1) / piece_;
  for (uint64_t i = job_.team->Claim(); i < pieces && !failed_.load(std::memory_order_relaxed);
       i = job_.team->Claim()) {
    absl::Status status = DoPiece(windows_[rank], i * piece_, std::min(job_.count, (i + 1) * piece_));
    if (status.ok()) continue;
    failed_.store(true, std::memory_order_relaxed);
    return status;
  }
  return absl::OkStatus();
}

absl::Status ByHost::DoPiece(const Window& window, uint64_t begin, uint64_t end) {
  const uint64_t item = job_.item_bytes;
  if (Reduces(job_.kind)) KILN_RETURN_IF_ERROR(Reduce(window, begin, end));
  if (OneInput(job_.kind)) {
    KILN_RETURN_IF_ERROR(Fetch(inputs_[job_.root], begin * item, (end - begin) * item, window.items.get()));
  }
  for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
    const Part part = job_.part(rank);
    const uint64_t from = std::max(begin, part.begin), to = std::min(end, part.end());
    if (InputsAreParts(job_.kind) && from < to) {
      char* const items = window.items.get() + (from - begin) * item;
      KILN_RETURN_IF_ERROR(Fetch(inputs_[rank], (from - part.begin) * item, (to - from) * item, items));
    }
  }
  for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
    if (outputs_[rank].device == nullptr) continue;
    if (!OutputsAreParts(job_.kind)) {
      KILN_RETURN_IF_ERROR(Put(outputs_[rank], begin * item, (end - begin) * item, window.items.get()));
      continue;
    }
    const Part part = job_.part(rank);
    const uint64_t from = std::max(begin, part.begin), to = std::min(end, part.end());
    if (from >= to) continue;
    const char* const items = window.items.get() + (from - begin) * item;
    KILN_RETURN_IF_ERROR(Put(outputs_[rank], (from - part.begin) * item, (to - from) * item, items));
  }
  return absl::OkStatus();
}

// Of all inputs there, into the window's items.
absl::Status ByHost::Reduce(const Window& window, uint64_t begin, uint64_t end) {
  const Arithmetic& arithmetic = *job_.arithmetic;
  const uint64_t item = job_.item_bytes, elements = end - begin;
  char* const more = window.more == nullptr ? window.items.get() : window.more.get();
  for (uint32_t rank = 0; rank < job_.ranks; ++rank) {
    KILN_RETURN_IF_ERROR(Fetch(inputs_[rank], begin * item, elements * item, window.items.get()));
    if (rank == 0) {
      arithmetic.widen(window.items.get(), window.total.get(), elements);
      continue;
    }
    if (more != window.items.get()) arithmetic.widen(window.items.get(), more, elements);
    arithmetic.combine(window.total.get(), more, elements);
  }
  arithmetic.narrow(window.total.get(), window.items.get(), elements);
  return absl::OkStatus();
}

absl::Status ByHost::Fetch(const Place& place, uint64_t offset, uint64_t bytes, char* to) const {
  return place.device->Load(place.data(offset), bytes, to);
}

absl::Status ByHost::Put(const Place& place, uint64_t offset, uint64_t bytes, const char* from) const {
  return place.device->Store(from, bytes, place.writable(offset));
}

}  // namespace kiln::runtime::collective
