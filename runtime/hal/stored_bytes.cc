#include "runtime/hal/stored_bytes.h"

namespace kiln::runtime {

uint32_t StoredBytes(v1::DType dtype) {
  switch (dtype) {
    case v1::BOOL:
    case v1::INT8:
    case v1::UINT8:
    case v1::FLOAT8_E4M3:
    case v1::FLOAT8_E5M2:
    case v1::FLOAT8_E4M3_FNUZ:
    case v1::FLOAT8_E5M2_FNUZ: return 1;
    case v1::INT16:
    case v1::UINT16:
    case v1::FLOAT16:
    case v1::BFLOAT16: return 2;
    case v1::INT32:
    case v1::UINT32:
    case v1::FLOAT32: return 4;
    case v1::INT64:
    case v1::UINT64:
    case v1::FLOAT64: return 8;
    default:  // void, weak types, and values that this version does not know
      return 0;
  }
}

}  // namespace kiln::runtime
