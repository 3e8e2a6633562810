// A scalar constant in its one canonical form.
//
// The wire lets a client write one value in several ways: the float32 1 as f,
// as i, as bits. CanonicalConst maps every spelling of a value to the same
// ConstValue, so equal constants compare, hash and print alike.
#ifndef KILN_BASE_CONST_VALUE_H_
#define KILN_BASE_CONST_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {

struct ConstValue {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;

  // The poison value; then `bits` is 0 and `decimal` empty.
  bool invalid = false;

  // bool: 0 or 1. Signed integers and WEAKINT: sign-extended to 64 bits.
  // Unsigned integers: zero-extended. Floats: the IEEE pattern, zero-extended;
  // WEAKFLOAT as float64.
  uint64_t bits = 0;

  // A WEAKINT that does not fit int64: an optional '-', then digits without
  // leading zeros. Empty otherwise, and then `bits` holds the value.
  std::string decimal;

  bool operator==(const ConstValue&) const = default;
};

// The rules, by class of `dtype`:
//   bool      b; or a number that is 0 or 1
//   integers  i, u, decimal, bits (the pattern, zero above the width), b; or an
//             f without a fraction; the value must be in the dtype's range
//   WEAKINT   the same, with no range; bits means int64
//   floats    f, i, u, b, rounded to nearest even; or bits (zero above the width)
// BAD_ARGUMENT for a missing value, a dtype that has no scalars (void), a value
// out of range, a malformed decimal, or `invalid: false`.
absl::StatusOr<ConstValue> CanonicalConst(const v1::ConstArg& arg);

}  // namespace kiln

#endif  // KILN_BASE_CONST_VALUE_H_
