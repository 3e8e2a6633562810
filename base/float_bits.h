// IEEE bit patterns of every float dtype, to and from double.
//
// Rounding is to nearest, ties to even, in one step: no detour over a wider
// format, so no double rounding. Denormals are exact both ways. NaN in gives
// the format's positive quiet NaN out. Past the greatest finite value:
// float64, float32, float16 and bfloat16 give infinity; the 8-bit floats
// saturate a finite value and keep an infinite one, which is NaN in those that
// have no infinity (e4m3 and both fnuz). fnuz formats have no -0: it is 0.
#ifndef KILN_BASE_FLOAT_BITS_H_
#define KILN_BASE_FLOAT_BITS_H_

#include <cstdint>

#include "kiln/v1/dtype.pb.h"

namespace kiln {

// Whether the functions below take `dtype`: every float dtype, and WEAKFLOAT,
// which is float64.
bool IsFloatDType(v1::DType dtype);

// The bit pattern in the low bits, the others zero. `dtype` must be a float.
uint64_t FloatToBits(v1::DType dtype, double value);
// Rounded from the integer itself: 2^63 or more loses nothing on the way.
uint64_t SignedToFloatBits(v1::DType dtype, int64_t value);
uint64_t UnsignedToFloatBits(v1::DType dtype, uint64_t value);

// The exact value; every format's values are doubles. NaN payloads of float32
// and float64 survive as far as the host's conversion keeps them. Bits above
// the format's width are ignored.
double BitsToFloat(v1::DType dtype, uint64_t bits);

// The positive quiet NaN.
uint64_t QuietNanBits(v1::DType dtype);

}  // namespace kiln

#endif  // KILN_BASE_FLOAT_BITS_H_
