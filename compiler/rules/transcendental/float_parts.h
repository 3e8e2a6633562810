// Floats taken apart and put together: what the decompositions of EXP2, LOG2,
// SIN and POW share. float32 and float64 alone.
#ifndef KILN_COMPILER_RULES_TRANSCENDENTAL_FLOAT_PARTS_H_
#define KILN_COMPILER_RULES_TRANSCENDENTAL_FLOAT_PARTS_H_

#include <cstdint>

#include "compiler/rewrite/formula.h"

namespace kiln::compiler {

struct FloatLayout {
  DType dtype;
  DType signed_bits, unsigned_bits;  // integers of its size
  int mantissa;                      // bits below the implicit one
  int bias;
  int least_exponent;                  // of the least denormal: 2^least_exponent
  uint64_t sign, infinity, root_half;  // patterns of -0, inf, and sqrt(1/2)
};

inline constexpr FloatLayout kFloat32Layout = {DType::kFloat32, DType::kInt32, DType::kUint32, 23, 127, -149,
                                               0x80000000,      0x7F800000,    0x3F3504F3};
inline constexpr FloatLayout kFloat64Layout = {
    DType::kFloat64,    DType::kInt64,      DType::kUint64,    52, 1023, -1074,
    0x8000000000000000, 0x7FF0000000000000, 0x3FE6A09E667F3BCD};

inline const FloatLayout& LayoutOf(DType dtype) { return dtype == DType::kFloat64 ? kFloat64Layout : kFloat32Layout; }

// A float constant by its pattern: an infinity, a NaN.
Formula Pattern64(Formula like, uint64_t bits);
Formula Infinity(Formula like);
Formula NotANumber(Formula like);

Formula Abs(Formula x);
Formula SignBit(Formula x);                     // the pattern of x's sign alone
Formula WithSign(Formula x, Formula sign_bit);  // x's pattern with that bit flipped in

// x = integer + fraction, rounded to nearest even: |fraction| <= 1/2, exactly.
// |x| < 2^(mantissa - 2). `integer` is a signed integer of x's size.
struct Rounded {
  Formula integer, fraction;
};
Rounded RoundToInteger(Formula x);

// A signed integer of a float's size as that float: |n| < 2^(mantissa - 2).
Formula SmallToFloat(Formula n, const FloatLayout& layout);

// x * 2^n, rounded once, also where the result is denormal or infinite; x in
// (1/2, 2), |n| at most twice the bias.
Formula Scale(Formula x, Formula n);

// x = m * 2^e with m in [sqrt(1/2), sqrt(2)), for finite x > 0.
struct Split {
  Formula e;  // as a float
  Formula m;
};
Split SplitExponent(Formula x, bool may_be_denormal = true);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_TRANSCENDENTAL_FLOAT_PARTS_H_
