#include "runtime/hal/wanted_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/cord.h"

namespace kiln::runtime::hal {
namespace {

constexpr char kPartly[] = "kiln/partly";

// The outcome of `piece` for each piece: the first is number 0.
absl::Status Each(uint64_t pieces, const LaunchControl& control, absl::FunctionRef<void(uint64_t number)> piece) {
  for (uint64_t i = 0; i < pieces; ++i) {
    if (absl::Status wanted = control.Check(); !wanted.ok()) return i == 0 ? wanted : Partly(std::move(wanted));
    piece(i);
  }
  return absl::OkStatus();
}

uint64_t PiecesOf(uint64_t bytes) { return (bytes + kWantedPiece - 1) / kWantedPiece; }

}  // namespace

absl::Status InWantedPieces(uint64_t bytes, const LaunchControl& control,
                            absl::FunctionRef<void(uint64_t begin, uint64_t end)> piece) {
  return Each(PiecesOf(bytes), control,
              [&](uint64_t i) { piece(i * kWantedPiece, std::min(bytes, (i + 1) * kWantedPiece)); });
}

absl::Status CopyWhileWanted(void* to, const void* from, uint64_t bytes, const LaunchControl& control) {
  auto* const target = static_cast<char*>(to);
  const auto* const source = static_cast<const char*>(from);
  // Where the two overlap, none may be written before it has been read: what goes up begins at its end.
  const bool from_the_end = reinterpret_cast<uintptr_t>(target) > reinterpret_cast<uintptr_t>(source);
  const uint64_t pieces = PiecesOf(bytes);
  return Each(pieces, control, [&](uint64_t i) {
    const uint64_t begin = (from_the_end ? pieces - 1 - i : i) * kWantedPiece;
    std::memmove(target + begin, source + begin, std::min(kWantedPiece, bytes - begin));
  });
}

absl::Status Partly(absl::Status failure) {
  failure.SetPayload(kPartly, absl::Cord());
  return failure;
}

bool IsPartly(const absl::Status& failure) { return failure.GetPayload(kPartly).has_value(); }

absl::Status WithoutNote(absl::Status failure) {
  failure.ErasePayload(kPartly);
  return failure;
}

}  // namespace kiln::runtime::hal
