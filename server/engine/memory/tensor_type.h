// How many bytes a tensor takes.
#ifndef KILN_SERVER_ENGINE_MEMORY_TENSOR_TYPE_H_
#define KILN_SERVER_ENGINE_MEMORY_TENSOR_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln::server {

// No buffer is larger: sizes below it can be added and rounded up in 64 bits.
inline constexpr uint64_t kLargestBuffer = uint64_t{1} << 60;

// As many as a graph's tensors have.
inline constexpr size_t kMaxDimensions = 32;

// BAD_ARGUMENT for a dtype that is never stored, a negative dimension, or more than
// kMaxDimensions; SIZE_OVERFLOW above kLargestBuffer.
absl::StatusOr<uint64_t> TensorBytes(v1::DType dtype, absl::Span<const int64_t> shape);

// "float32 [2, 3]"; of more than kMaxDimensions, the first and "...".
std::string TensorTypeName(v1::DType dtype, absl::Span<const int64_t> shape);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_MEMORY_TENSOR_TYPE_H_
