// Bytes into a GPU's memory, out of it and about in it.
//
// A GPU copies by itself only from and to host memory that is pinned, which callers' memory is
// not: it goes through two pieces that are, one filled while the other travels.
#ifndef KILN_RUNTIME_DRIVERS_GPU_TRANSFERS_H_
#define KILN_RUNTIME_DRIVERS_GPU_TRANSFERS_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/drivers/gpu/card.h"
#include "runtime/drivers/gpu/owned.h"

namespace kiln::runtime::gpu {

// For one thread at a time. Everything has ended when a call returns, as has whatever the
// stream was asked for before.
class Transfers {
 public:
  // Both outlive it. What it needs itself it takes when it first needs it.
  Transfers(Card* card, Stream stream) : card_(card), stream_(stream) {}

  // The pieces, one behind the other.
  absl::Status In(absl::Span<const absl::string_view> pieces, Address to);
  absl::Status Out(Address from, void* to, uint64_t bytes);

  // Behaves as if `from` were read first. Ranges that overlap go through `bounce`, which has
  // `bounce_bytes` bytes, not none.
  absl::Status Inside(Address from, Address to, uint64_t bytes, Address bounce, uint64_t bounce_bytes);
  static bool NeedsBounce(Address from, Address to, uint64_t bytes);

  // As hal::Queue::Fill.
  absl::Status Fill(Address to, uint64_t bytes, absl::string_view pattern);

  // Of each of the two pieces.
  static constexpr uint64_t kPieceBytes = 4 << 20;

 private:
  struct Piece {
    OwnedPinned memory;
    OwnedEvent free;  // happens when the GPU is done with it
    bool in_use = false;

    char* data() const { return static_cast<char*>(memory.get()); }
  };

  absl::Status TakePieces();
  absl::Status WaitFor(Piece& piece);
  // The asynchronous parts.
  absl::Status StartIn(absl::Span<const absl::string_view> pieces, Address to);
  absl::Status OutByPieces(Address from, char* to, uint64_t bytes);
  absl::Status StartInside(Address from, Address to, uint64_t bytes, Address bounce, uint64_t bounce_bytes);
  absl::Status StartFill(Address to, uint64_t bytes, absl::string_view pattern);
  // Waits for the stream, whatever has happened, so that the pieces are not in use any more.
  absl::Status End(absl::Status status);

  Card* const card_;
  const Stream stream_;
  std::array<Piece, 2> pieces_;
};

}  // namespace kiln::runtime::gpu

#endif  // KILN_RUNTIME_DRIVERS_GPU_TRANSFERS_H_
