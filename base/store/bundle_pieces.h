// A bundle (bundle.h) that comes, or goes, in pieces of any size: what DebugService.Export and Import send.
#ifndef KILN_BASE_STORE_BUNDLE_PIECES_H_
#define KILN_BASE_STORE_BUNDLE_PIECES_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace kiln::store {

inline constexpr absl::string_view kBundleMagic = "KILNBNDL";
inline constexpr uint64_t kBundleVersion = 1;

// How a bundle begins, what stands before each entry of so many bytes, and how it ends.
std::string BundleBegin();
std::string EntryBegin(uint64_t bytes);
std::string BundleEnd();

// CORRUPT_ENTRY with field "bundle".
absl::Status BrokenBundle(absl::string_view what);

// Puts entries together again, one at a time: it never holds more than has come of one. One thread at a time.
class BundlePieces {
 public:
  // Of one entry: what is larger is refused before it comes.
  explicit BundlePieces(uint64_t max_entry_bytes) : max_entry_bytes_(max_entry_bytes) {}

  // The next piece. `each` gets every entry that it completes, as bytes of which nothing is known (DecodeEntry); its
  // failure ends the bundle. OUT_OF_MEMORY, limit "entry bytes"; CORRUPT_ENTRY, field "bundle".
  absl::Status Add(absl::string_view piece, absl::FunctionRef<absl::Status(std::string entry)> each);
  // There is no more: CORRUPT_ENTRY, field "bundle", unless its end has come.
  absl::Status Finish() const;

  // Of the entry that has begun, as long as it says it is; 0 between two.
  uint64_t entry_bytes() const { return part_ == Part::kEntry ? wanted_ : 0; }

 private:
  enum class Part { kBegin, kLength, kEntry, kEnd };
  void Begin(Part part, uint64_t bytes);

  const uint64_t max_entry_bytes_;
  Part part_ = Part::kBegin;
  uint64_t wanted_ = kBundleMagic.size() + 4;  // bytes of the part
  std::string bytes_;                          // of it, that have come
};

}  // namespace kiln::store

#endif  // KILN_BASE_STORE_BUNDLE_PIECES_H_
