// Tested by tests/python/load_test.py and client/cpp/arrays/safetensors_test.cc.
#include "base/safetensors_names.h"

namespace kiln {
namespace {

struct Kind {
  absl::string_view name;
  v1::DType dtype;
};

// The format's own names.
constexpr Kind kKinds[] = {
    {"BOOL", v1::BOOL},
    {"U8", v1::UINT8},
    {"I8", v1::INT8},
    {"U16", v1::UINT16},
    {"I16", v1::INT16},
    {"U32", v1::UINT32},
    {"I32", v1::INT32},
    {"U64", v1::UINT64},
    {"I64", v1::INT64},
    {"F16", v1::FLOAT16},
    {"BF16", v1::BFLOAT16},
    {"F32", v1::FLOAT32},
    {"F64", v1::FLOAT64},
    {"F8_E4M3", v1::FLOAT8_E4M3},
    {"F8_E5M2", v1::FLOAT8_E5M2},
};

}  // namespace

std::optional<v1::DType> DTypeOfSafetensors(absl::string_view name) {
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return kind.dtype;
  }
  return std::nullopt;
}

absl::string_view SafetensorsName(v1::DType dtype) {
  for (const Kind& kind : kKinds) {
    if (kind.dtype == dtype) return kind.name;
  }
  return "";
}

}  // namespace kiln
