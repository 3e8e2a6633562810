// Copies of memory that the host sees, for as long as they are wanted.
//
// A gigabyte takes a large part of a second. What copies one for somebody looks in between whether that is still there,
// and has not missed its deadline: it copies piece by piece.
#ifndef KILN_RUNTIME_HAL_WANTED_COPY_H_
#define KILN_RUNTIME_HAL_WANTED_COPY_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "runtime/hal/module.h"

namespace kiln::runtime::hal {

// In bytes. What moves no more than this takes a millisecond or so, and need not look whether it is still wanted.
inline constexpr uint64_t kMaxUnwatched = 4 << 20;
// After so many, what is watched looks again.
inline constexpr uint64_t kWantedPiece = 1 << 20;

// As memmove, and looks at `control` before each piece. The errors of LaunchControl::Check: one that came when some had
// been written already is Partly.
absl::Status CopyWhileWanted(void* to, const void* from, uint64_t bytes, const LaunchControl& control);

// The same for whatever is done by bytes: `piece` is called for [begin, end), in ascending order. All pieces but the
// last have kWantedPiece bytes.
absl::Status InWantedPieces(uint64_t bytes, const LaunchControl& control,
                            absl::FunctionRef<void(uint64_t begin, uint64_t end)> piece);

// A failure, with the note that what was to be written has been in part. It has no meaning for clients, and does not
// travel.
absl::Status Partly(absl::Status failure);
bool IsPartly(const absl::Status& failure);
absl::Status WithoutNote(absl::Status failure);

}  // namespace kiln::runtime::hal

#endif  // KILN_RUNTIME_HAL_WANTED_COPY_H_
