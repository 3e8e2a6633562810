#include "client/cpp/arrays/dtype.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kiln::client {
int64_t DTypeSize(v1::DType dtype) { return RowOf(dtype).bits / 8; }
bool IsFloat(v1::DType dtype) { return RowOf(dtype).kind == DTypeClass::kFloat; }
bool IsSigned(v1::DType dtype) { return RowOf(dtype).kind == DTypeClass::kSigned; }
bool IsInteger(v1::DType dtype) { return IsSigned(dtype) || RowOf(dtype).kind == DTypeClass::kUnsigned; }

uint64_t GreatestInteger(v1::DType dtype) {
  const int64_t bits = 8 * DTypeSize(dtype) - (IsSigned(dtype) ? 1 : 0);
  return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

std::string ShapeText(const Shape& shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "), shape.size() == 1 ? ",)" : ")");
}

std::string TypeText(v1::DType dtype, const Shape& shape) {
  return absl::StrCat(DTypeName(dtype), " ", ShapeText(shape));
}

std::optional<int64_t> ElementCount(const Shape& shape) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t axis : shape) {
    if (axis < 0) return std::nullopt;
    if (axis == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, axis, &count)) {
      return std::nullopt;
    }
  }
  return empty ? 0 : count;
}

std::optional<int64_t> ByteCount(v1::DType dtype, const Shape& shape) {
  const std::optional<int64_t> count = ElementCount(shape);
  int64_t bytes = 0;
  if (!count.has_value() || __builtin_mul_overflow(*count, DTypeSize(dtype), &bytes)) return std::nullopt;
  return bytes;
}

}  // namespace kiln::client
