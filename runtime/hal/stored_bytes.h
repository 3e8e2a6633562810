// How large an element is in memory.
#ifndef KILN_RUNTIME_HAL_STORED_BYTES_H_
#define KILN_RUNTIME_HAL_STORED_BYTES_H_

#include <cstdint>

#include "kiln/v1/dtype.pb.h"

namespace kiln::runtime {

// Bytes of one element as it is stored; 0 for what is never stored.
uint32_t StoredBytes(v1::DType dtype);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_HAL_STORED_BYTES_H_
