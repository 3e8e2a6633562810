// 256 bits that stand for what they were made of (blake3.h): the name of a graph, the key of a program.
#ifndef KILN_BASE_DIGEST_H_
#define KILN_BASE_DIGEST_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "absl/strings/string_view.h"
#include "base/check.h"

namespace kiln {

struct Digest {
  std::array<uint8_t, 32> bytes = {};

  // `from` must be 32 long.
  static Digest FromBytes(absl::string_view from) {
    Digest digest;
    KILN_CHECK(from.size() == digest.bytes.size());
    std::memcpy(digest.bytes.data(), from.data(), from.size());
    return digest;
  }
  absl::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

  auto operator<=>(const Digest&) const = default;
  template <typename H>
  friend H AbslHashValue(H h, const Digest& digest) {
    return H::combine_contiguous(std::move(h), digest.bytes.data(), digest.bytes.size());
  }
};

}  // namespace kiln

#endif  // KILN_BASE_DIGEST_H_
