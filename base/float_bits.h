// Floats of every width as IEEE bits: exact to double, and from double rounded
// to nearest even, once.
#ifndef KILN_BASE_FLOAT_BITS_H_
#define KILN_BASE_FLOAT_BITS_H_

#include <cstdint>

#include "kiln/v1/dtype.pb.h"

namespace kiln {

// `dtype` is a float type; WEAKFLOAT counts as FLOAT64. Bits beyond the type's
// width are ignored.
double DoubleFromFloatBits(v1::DType dtype, uint64_t bits);

// The nearest value of `dtype`. Overflow gives infinity, or for float8 the
// greatest finite value; NaN gives a quiet NaN, with the upper bits of its
// payload.
uint64_t FloatBitsFromDouble(v1::DType dtype, double value);

}  // namespace kiln

#endif  // KILN_BASE_FLOAT_BITS_H_
