// One elementwise op on scalars: docs/ir.md's tables of integers and floats, as
// plainly as they can be written. Every other engine is compared with this one.
#ifndef KILN_COMPILER_INTERP_SCALAR_H_
#define KILN_COMPILER_INTERP_SCALAR_H_

#include <cstdint>

#include "absl/types/span.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

// `op` over operands of dtype `from` (WHERE: its branches' dtype; the condition
// is 0 or 1), giving a value of dtype `to`, which differs from `from` for CAST,
// BITCAST of one size, and comparisons. Values are bits as ConstArg has them.
uint64_t EvalScalar(Op op, DType from, DType to, absl::Span<const uint64_t> operands);

// The value of a float of any dtype, and the float nearest to a value.
double FloatValue(DType dtype, uint64_t bits);
uint64_t FloatBits(DType dtype, double value);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_SCALAR_H_
