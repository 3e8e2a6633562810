// Scalar types: the table of what each one is.
#ifndef KILN_COMPILER_IR_DTYPE_H_
#define KILN_COMPILER_IR_DTYPE_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "kiln/v1/dtype.pb.h"

namespace kiln::compiler {

// The numbers are the wire's.
enum class DType : uint8_t {
  kNone = v1::DTYPE_UNSPECIFIED,
  kVoid = v1::VOID,
  kBool = v1::BOOL,
  kInt8 = v1::INT8,
  kInt16 = v1::INT16,
  kInt32 = v1::INT32,
  kInt64 = v1::INT64,
  kUint8 = v1::UINT8,
  kUint16 = v1::UINT16,
  kUint32 = v1::UINT32,
  kUint64 = v1::UINT64,
  kFloat16 = v1::FLOAT16,
  kFloat32 = v1::FLOAT32,
  kFloat64 = v1::FLOAT64,
  kBfloat16 = v1::BFLOAT16,
  kFloat8E4m3 = v1::FLOAT8_E4M3,
  kFloat8E5m2 = v1::FLOAT8_E5M2,
  kFloat8E4m3Fnuz = v1::FLOAT8_E4M3_FNUZ,
  kFloat8E5m2Fnuz = v1::FLOAT8_E5M2_FNUZ,
  kWeakint = v1::WEAKINT,
  kWeakfloat = v1::WEAKFLOAT,
};

// What index arithmetic inside kernels is done in.
inline constexpr DType kIndexType = DType::kInt64;

enum class DTypeClass : uint8_t { kNone, kVoid, kBool, kSigned, kUnsigned, kFloat };

struct DTypeInfo {
  absl::string_view name;  // "float32"
  DTypeClass dtype_class;
  uint8_t bytes;  // of one element in memory; 0 for void. Weak types count as their 64-bit values.
  bool weak;
  bool supported;  // may be computed with and stored
};

// Of any value that fits the enum's byte; unknown ones read as kNone.
const DTypeInfo& Info(DType dtype);

inline absl::string_view Name(DType dtype) { return Info(dtype).name; }
inline int ItemSize(DType dtype) { return Info(dtype).bytes; }
inline int Bits(DType dtype) { return dtype == DType::kBool ? 1 : 8 * Info(dtype).bytes; }
inline bool IsFloat(DType dtype) { return Info(dtype).dtype_class == DTypeClass::kFloat; }
inline bool IsSigned(DType dtype) { return Info(dtype).dtype_class == DTypeClass::kSigned; }
inline bool IsUnsigned(DType dtype) { return Info(dtype).dtype_class == DTypeClass::kUnsigned; }
// Integers without bool.
inline bool IsInt(DType dtype) { return IsSigned(dtype) || IsUnsigned(dtype); }
inline bool IsIntOrBool(DType dtype) { return IsInt(dtype) || dtype == DType::kBool; }
inline bool IsWeak(DType dtype) { return Info(dtype).weak; }
// Floats that are computed in float32 and rounded once an op.
inline bool IsNarrowFloat(DType dtype) { return IsFloat(dtype) && ItemSize(dtype) < 4; }

inline v1::DType ToWire(DType dtype) { return static_cast<v1::DType>(dtype); }
inline DType FromWire(v1::DType dtype) { return dtype >= 0 && dtype < 256 ? static_cast<DType>(dtype) : DType::kNone; }

// The unsigned integer of as many bytes.
DType UnsignedOfSize(int bytes);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_DTYPE_H_
