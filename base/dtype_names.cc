#include "base/dtype_names.h"

#include <cstddef>
#include <iterator>

namespace kiln {
namespace {

// Indexed by the enum's number.
constexpr DTypeRow kRows[] = {
    {"", DTypeClass::kNone, 0},
    {"void", DTypeClass::kNone, 0},
    {"bool", DTypeClass::kBool, 8},
    {"int8", DTypeClass::kSigned, 8},
    {"int16", DTypeClass::kSigned, 16},
    {"int32", DTypeClass::kSigned, 32},
    {"int64", DTypeClass::kSigned, 64},
    {"uint8", DTypeClass::kUnsigned, 8},
    {"uint16", DTypeClass::kUnsigned, 16},
    {"uint32", DTypeClass::kUnsigned, 32},
    {"uint64", DTypeClass::kUnsigned, 64},
    {"float16", DTypeClass::kFloat, 16},
    {"float32", DTypeClass::kFloat, 32},
    {"float64", DTypeClass::kFloat, 64},
    {"bfloat16", DTypeClass::kFloat, 16},
    {"float8_e4m3", DTypeClass::kFloat, 8},
    {"float8_e5m2", DTypeClass::kFloat, 8},
    {"float8_e4m3_fnuz", DTypeClass::kFloat, 8},
    {"float8_e5m2_fnuz", DTypeClass::kFloat, 8},
    {"weakint", DTypeClass::kWeakInt, 0},
    {"weakfloat", DTypeClass::kWeakFloat, 0},
};
static_assert(std::size(kRows) == v1::DType_ARRAYSIZE, "one row a dtype");

}  // namespace

const DTypeRow& RowOf(v1::DType dtype) {
  const size_t number = static_cast<uint32_t>(dtype);
  return kRows[number < std::size(kRows) ? number : 0];
}

std::optional<v1::DType> ParseDType(absl::string_view name) {
  for (size_t i = 1; i < std::size(kRows); ++i) {
    if (kRows[i].name == name) return static_cast<v1::DType>(i);
  }
  return std::nullopt;
}

}  // namespace kiln
