// The one value behind the several spellings of a CONST on the wire.
#ifndef KILN_BASE_CONST_VALUE_H_
#define KILN_BASE_CONST_VALUE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "kiln/v1/graph.pb.h"

namespace kiln {

struct ConstValue {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  // Signed integers sign-extended to 64 bits, all else zero-extended; a weak
  // integer is int64, a weak float float64.
  uint64_t bits = 0;
  bool invalid = false;
  // A weak integer outside int64, in decimal without leading zeros; else empty.
  std::string decimal;
};

// BAD_ARGUMENT if no value is set or it does not fit the dtype.
absl::StatusOr<ConstValue> CanonicalConst(const v1::ConstArg& wire);

}  // namespace kiln

#endif  // KILN_BASE_CONST_VALUE_H_
