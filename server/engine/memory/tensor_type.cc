#include "server/engine/memory/tensor_type.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/dtype_names.h"
#include "base/error.h"

namespace kiln::server {
namespace {

absl::Status Bad(absl::string_view field, absl::string_view message) {
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field(std::string(field));
  return MakeError(detail, message);
}

}  // namespace

absl::StatusOr<uint64_t> TensorBytes(v1::DType dtype, absl::Span<const int64_t> shape) {
  uint64_t bytes = RowOf(dtype).bits / 8;  // none for what is never stored
  if (bytes == 0) return Bad("dtype", absl::StrCat(TensorTypeName(dtype, {}), " is no dtype that memory holds"));
  if (shape.size() > kMaxDimensions) {
    v1::ErrorDetail detail;
    detail.set_code(v1::BAD_ARGUMENT);
    detail.set_field("shape");
    detail.set_limit("dimensions");
    detail.set_limit_value(kMaxDimensions);
    detail.set_used(shape.size());
    return MakeError(
        detail, absl::StrCat("a shape of ", shape.size(), " dimensions; at most ", kMaxDimensions, " are allowed"));
  }
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) return Bad("shape", absl::StrCat("dimension ", size, " is negative"));
    if (size == 0) empty = true;
  }
  if (empty) return uint64_t{0};
  for (int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(size), &bytes) || bytes > kLargestBuffer) {
      v1::ErrorDetail detail;
      detail.set_code(v1::SIZE_OVERFLOW);
      detail.set_field("shape");
      detail.set_limit("buffer_bytes");
      detail.set_limit_value(kLargestBuffer);
      return MakeError(detail, absl::StrCat(TensorTypeName(dtype, shape), " has more bytes than any memory holds"));
    }
  }
  return bytes;
}

std::string TensorTypeName(v1::DType dtype, absl::Span<const int64_t> shape) {
  const absl::string_view name = DTypeName(dtype);
  if (name.empty()) return absl::StrCat("dtype ", static_cast<int>(dtype));
  const bool long_one = shape.size() > kMaxDimensions;
  return absl::StrCat(name, " [", absl::StrJoin(shape.subspan(0, kMaxDimensions), ", "), long_one ? ", ..." : "", "]");
}

}  // namespace kiln::server
