#include "compiler/ir/dtype.h"

#include <iterator>

namespace kiln::compiler {
namespace {

// Indexed by the wire's number.
constexpr DTypeInfo kTable[] = {
    {"none", DTypeClass::kNone, 0, false, false},
    {"void", DTypeClass::kVoid, 0, false, true},
    {"bool", DTypeClass::kBool, 1, false, true},
    {"int8", DTypeClass::kSigned, 1, false, true},
    {"int16", DTypeClass::kSigned, 2, false, true},
    {"int32", DTypeClass::kSigned, 4, false, true},
    {"int64", DTypeClass::kSigned, 8, false, true},
    {"uint8", DTypeClass::kUnsigned, 1, false, true},
    {"uint16", DTypeClass::kUnsigned, 2, false, true},
    {"uint32", DTypeClass::kUnsigned, 4, false, true},
    {"uint64", DTypeClass::kUnsigned, 8, false, true},
    {"float16", DTypeClass::kFloat, 2, false, true},
    {"float32", DTypeClass::kFloat, 4, false, true},
    {"float64", DTypeClass::kFloat, 8, false, true},
    {"bfloat16", DTypeClass::kFloat, 2, false, true},
    {"float8_e4m3", DTypeClass::kFloat, 1, false, true},
    {"float8_e5m2", DTypeClass::kFloat, 1, false, true},
    {"float8_e4m3_fnuz", DTypeClass::kFloat, 1, false, true},
    {"float8_e5m2_fnuz", DTypeClass::kFloat, 1, false, true},
    {"weakint", DTypeClass::kSigned, 8, true, true},
    {"weakfloat", DTypeClass::kFloat, 8, true, true},
};

}  // namespace

const DTypeInfo& Info(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return index < std::size(kTable) ? kTable[index] : kTable[0];
}

DType UnsignedOfSize(int bytes) {
  switch (bytes) {
    case 1: return DType::kUint8;
    case 2: return DType::kUint16;
    case 4: return DType::kUint32;
    case 8: return DType::kUint64;
  }
  return DType::kNone;
}

}  // namespace kiln::compiler
