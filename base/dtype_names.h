// What the wire's DType enum says about each scalar type: its name in the text
// form, its size in memory, its class. One table, no reflection.
#ifndef KILN_BASE_DTYPE_NAMES_H_
#define KILN_BASE_DTYPE_NAMES_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln {

enum class DTypeClass : uint8_t { kNone, kBool, kSigned, kUnsigned, kFloat, kWeakInt, kWeakFloat };

struct DTypeRow {
  absl::string_view name;  // "float32"; empty for a number that is no dtype
  DTypeClass kind = DTypeClass::kNone;
  int bits = 0;  // size in memory; 0 for void and the weak types
};

// Any number is fine: an unknown one has the empty row.
const DTypeRow& RowOf(v1::DType dtype);

inline absl::string_view DTypeName(v1::DType dtype) { return RowOf(dtype).name; }

// "float32" -> FLOAT32; none for anything else, DTYPE_UNSPECIFIED included.
std::optional<v1::DType> ParseDType(absl::string_view name);

}  // namespace kiln

#endif  // KILN_BASE_DTYPE_NAMES_H_
