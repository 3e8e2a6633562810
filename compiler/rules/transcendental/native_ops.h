// What a target computes itself among the ops that have a decomposition.
//
// EXP2, LOG2, SIN and POW of float32 and float64 are decomposed into ops that
// every target has, unless the target lists them here: it may, if its own
// instruction stays within docs/ir.md's bounds over the whole range, denormals,
// infinities and NaN included. SQRT, RECIPROCAL and FDIV have no decomposition:
// they are rounded correctly, which no composition of the other ops is, so
// every target must have them.
#ifndef KILN_COMPILER_RULES_TRANSCENDENTAL_NATIVE_OPS_H_
#define KILN_COMPILER_RULES_TRANSCENDENTAL_NATIVE_OPS_H_

#include "absl/types/span.h"
#include "compiler/ir/dtype.h"
#include "compiler/ir/op.h"

namespace kiln::compiler {

struct NativeOp {
  Op op;
  DType dtype;
};

using NativeOps = absl::Span<const NativeOp>;

inline bool IsNative(NativeOps native, Op op, DType dtype) {
  for (const NativeOp& row : native) {
    if (row.op == op && row.dtype == dtype) return true;
  }
  return false;
}

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_TRANSCENDENTAL_NATIVE_OPS_H_
