// The classification extension of the open inference protocol: of an output not its elements, but the greatest of them,
// each as the text "value:index". The protocol has labels behind that, where a model's configuration names some; an
// ONNX model has none.
#ifndef KILN_SERVER_MODELS_CLASSIFY_H_
#define KILN_SERVER_MODELS_CLASSIFY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/models/datatypes.h"

namespace kiln::server {

inline constexpr absl::string_view kBytesDatatype = "BYTES";

// A tensor of BYTES: before each element stands its length, as four bytes, little-endian.
struct Classes {
  std::vector<int64_t> shape;
  std::string bytes;
};

// Of one tensor. The text of an element may have some 320 bytes, which nobody has paid for.
inline constexpr size_t kMaxClasses = 16 << 10;

// The `count` greatest of each of `rows` equal parts of a tensor, or all if there are fewer, greatest first; of equal
// ones the first, and what is no number last. [rows, so many], or [so many] without rows, which is the tensor as one.
// BAD_ARGUMENT for more than kMaxClasses.
absl::StatusOr<Classes> GreatestOf(const Datatype& datatype, absl::string_view data, std::optional<size_t> rows,
                                   uint32_t count);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_CLASSIFY_H_
