// Tested by base/store/bundle_test.
#include "base/store/bundle_pieces.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::store {
namespace {

std::string NumberBytes(uint64_t number, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(number >> (8 * i) & 0xff));
  return text;
}

uint64_t NumberOf(absl::string_view bytes) {
  uint64_t number = 0;
  for (size_t i = 0; i < bytes.size(); ++i) number |= uint64_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return number;
}

}  // namespace

std::string BundleBegin() { return absl::StrCat(kBundleMagic, NumberBytes(kBundleVersion, 4)); }
std::string EntryBegin(uint64_t bytes) { return NumberBytes(bytes, 8); }
std::string BundleEnd() { return NumberBytes(0, 8); }

absl::Status BrokenBundle(absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::CORRUPT_ENTRY);
  detail.set_field("bundle");
  return MakeError(std::move(detail), absl::StrCat("bundle: ", what));
}

void BundlePieces::Begin(Part part, uint64_t bytes) {
  part_ = part;
  wanted_ = bytes;
  bytes_.clear();
}

absl::Status BundlePieces::Add(absl::string_view piece, absl::FunctionRef<absl::Status(std::string entry)> each) {
  while (!piece.empty()) {
    if (part_ == Part::kEnd) return BrokenBundle(absl::StrCat(piece.size(), " bytes or more follow its end"));
    const absl::string_view taken = piece.substr(0, wanted_ - bytes_.size());
    bytes_.append(taken.data(), taken.size());
    piece.remove_prefix(taken.size());
    if (bytes_.size() < wanted_) break;
    switch (part_) {
      case Part::kBegin: {
        const absl::string_view begin = bytes_;
        if (begin.substr(0, kBundleMagic.size()) != kBundleMagic) return BrokenBundle("this is none");
        const uint64_t version = NumberOf(begin.substr(kBundleMagic.size()));
        if (version != kBundleVersion) {
          return BrokenBundle(absl::StrCat("layout ", version, "; this program reads ", kBundleVersion));
        }
        Begin(Part::kLength, 8);
        break;
      }
      case Part::kLength: {
        const uint64_t length = NumberOf(bytes_);
        if (length > max_entry_bytes_) {
          v1::ErrorDetail detail;
          detail.set_code(v1::OUT_OF_MEMORY);
          detail.set_limit("entry bytes");
          detail.set_limit_value(max_entry_bytes_);
          detail.set_used(length);
          return MakeError(std::move(detail), absl::StrCat("bundle: an entry of ", length, " bytes; at most ",
                                                           max_entry_bytes_, " are taken"));
        }
        Begin(length == 0 ? Part::kEnd : Part::kEntry, length);
        break;
      }
      case Part::kEntry: {
        std::string entry = std::exchange(bytes_, std::string());
        Begin(Part::kLength, 8);
        KILN_RETURN_IF_ERROR(each(std::move(entry)));
        break;
      }
      case Part::kEnd: break;
    }
  }
  return absl::OkStatus();
}

absl::Status BundlePieces::Finish() const {
  return part_ == Part::kEnd ? absl::OkStatus() : BrokenBundle("it ends too early");
}

}  // namespace kiln::store
