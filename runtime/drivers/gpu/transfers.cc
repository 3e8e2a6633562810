#include "runtime/drivers/gpu/transfers.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"

namespace kiln::runtime::gpu {
namespace {

// The bytes of `pattern` as one number, in the host's order, which is the GPUs' too.
uint32_t ValueOf(absl::string_view pattern) {
  uint32_t value = 0;
  std::memcpy(&value, pattern.data(), pattern.size());
  return value;
}

// What a fill can repeat in one go: a pattern of 1, 2 or 4 bytes over whole values.
bool IsPlain(Address to, uint64_t bytes, absl::string_view pattern) {
  const uint64_t size = pattern.size();
  return (size == 1 || size == 2 || size == 4) && to % size == 0 && bytes % size == 0;
}

}  // namespace

absl::Status Transfers::TakePieces() {
  for (Piece& piece : pieces_) {
    if (!piece.memory) {
      KILN_ASSIGN_OR_RETURN(void* const memory, card_->AllocatePinned(kPieceBytes));
      piece.memory = OwnedPinned(card_, memory);
    }
    if (!piece.free) {
      KILN_ASSIGN_OR_RETURN(const Event event, card_->MakeEvent());
      piece.free = OwnedEvent(card_, event);
    }
  }
  return absl::OkStatus();
}

absl::Status Transfers::WaitFor(Piece& piece) {
  if (!std::exchange(piece.in_use, false)) return absl::OkStatus();
  return card_->Wait(piece.free.get());
}

absl::Status Transfers::End(absl::Status status) {
  status.Update(card_->Finish(stream_));
  for (Piece& piece : pieces_) piece.in_use = false;
  return status;
}

absl::Status Transfers::In(absl::Span<const absl::string_view> pieces, Address to) { return End(StartIn(pieces, to)); }

absl::Status Transfers::StartIn(absl::Span<const absl::string_view> pieces, Address to) {
  KILN_RETURN_IF_ERROR(TakePieces());
  size_t at = 0;
  uint64_t filled = 0;
  const auto send = [&]() -> absl::Status {
    if (filled == 0) return absl::OkStatus();
    Piece& piece = pieces_[at];
    piece.in_use = true;
    KILN_RETURN_IF_ERROR(card_->CopyIn(stream_, piece.data(), to, filled));
    KILN_RETURN_IF_ERROR(card_->Record(piece.free.get(), stream_));
    to += filled;
    filled = 0;
    at = 1 - at;
    return WaitFor(pieces_[at]);
  };
  for (absl::string_view rest : pieces) {
    while (!rest.empty()) {
      const uint64_t bytes = std::min<uint64_t>(rest.size(), kPieceBytes - filled);
      std::memcpy(pieces_[at].data() + filled, rest.data(), bytes);
      filled += bytes;
      rest.remove_prefix(bytes);
      if (filled == kPieceBytes) KILN_RETURN_IF_ERROR(send());
    }
  }
  return send();
}

absl::Status Transfers::Out(Address from, void* to, uint64_t bytes) {
  return End(OutByPieces(from, static_cast<char*>(to), bytes));
}

absl::Status Transfers::OutByPieces(Address from, char* to, uint64_t bytes) {
  KILN_RETURN_IF_ERROR(TakePieces());
  uint64_t asked = 0, arrived = 0;
  for (size_t at = 0; arrived < bytes; at = 1 - at) {
    // One ahead of the one that is waited for.
    for (size_t ahead = at; asked < bytes && !pieces_[ahead].in_use; ahead = 1 - ahead) {
      Piece& piece = pieces_[ahead];
      const uint64_t size = std::min(bytes - asked, kPieceBytes);
      piece.in_use = true;
      KILN_RETURN_IF_ERROR(card_->CopyOut(stream_, from + asked, piece.data(), size));
      KILN_RETURN_IF_ERROR(card_->Record(piece.free.get(), stream_));
      asked += size;
    }
    KILN_RETURN_IF_ERROR(WaitFor(pieces_[at]));
    const uint64_t size = std::min(bytes - arrived, kPieceBytes);
    std::memcpy(to + arrived, pieces_[at].data(), size);
    arrived += size;
  }
  return absl::OkStatus();
}

bool Transfers::NeedsBounce(Address from, Address to, uint64_t bytes) {
  return from != to && from < to + bytes && to < from + bytes;
}

absl::Status Transfers::Inside(Address from, Address to, uint64_t bytes, Address bounce, uint64_t bounce_bytes) {
  return End(StartInside(from, to, bytes, bounce, bounce_bytes));
}

absl::Status Transfers::StartInside(Address from, Address to, uint64_t bytes, Address bounce, uint64_t bounce_bytes) {
  if (bytes == 0 || from == to) return absl::OkStatus();
  if (!NeedsBounce(from, to, bytes)) return card_->CopyInside(stream_, from, to, bytes);
  // What lies where something is written next has been read before: from the end if it moves up.
  for (uint64_t done = 0; done < bytes;) {
    const uint64_t size = std::min(bytes - done, bounce_bytes);
    const uint64_t offset = to > from ? bytes - done - size : done;
    KILN_RETURN_IF_ERROR(card_->CopyInside(stream_, from + offset, bounce, size));
    KILN_RETURN_IF_ERROR(card_->CopyInside(stream_, bounce, to + offset, size));
    done += size;
  }
  return absl::OkStatus();
}

absl::Status Transfers::Fill(Address to, uint64_t bytes, absl::string_view pattern) {
  return End(StartFill(to, bytes, pattern));
}

absl::Status Transfers::StartFill(Address to, uint64_t bytes, absl::string_view pattern) {
  if (bytes == 0) return absl::OkStatus();
  if (pattern.empty()) pattern = absl::string_view("\0", 1);
  if (pattern.find_first_not_of(pattern[0]) == absl::string_view::npos) pattern = pattern.substr(0, 1);
  if (IsPlain(to, bytes, pattern)) {
    const auto size = static_cast<uint32_t>(pattern.size());
    return card_->Fill(stream_, to, ValueOf(pattern), size, bytes / size);
  }
  // The pattern once; then what is there is doubled.
  uint64_t done = std::min<uint64_t>(pattern.size(), bytes);
  pattern = pattern.substr(0, done);
  KILN_RETURN_IF_ERROR(StartIn({&pattern, 1}, to));
  while (done < bytes) {
    const uint64_t more = std::min(done, bytes - done);
    KILN_RETURN_IF_ERROR(card_->CopyInside(stream_, to, to + done, more));
    done += more;
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime::gpu
