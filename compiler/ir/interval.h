// Arithmetic of intervals: from what holds for the operands of an integer op to
// what holds for its result, as docs/ir.md's table of integers defines the ops.
//
// Every function takes known bounds and gives bounds that hold for every pair of
// values. Results are exact integers; Wrapped() says what is left of them in a
// dtype of fixed width.
#ifndef KILN_COMPILER_IR_INTERVAL_H_
#define KILN_COMPILER_IR_INTERVAL_H_

#include "compiler/ir/uop.h"

namespace kiln::compiler {

Bounds Interval(__int128 min, __int128 max);
// The smallest interval that holds both.
Bounds Hull(const Bounds& a, const Bounds& b);
// The values of `exact` modulo the dtype's width: shifted if all of them wrap
// equally often, else every value of the dtype. Bool: whether they are 0.
Bounds Wrapped(const Bounds& exact, DType dtype);

// `a op b` for an integer op of two operands (bool counts as an integer of one
// bit), in `dtype`.
Bounds OfBinary(Op op, const Bounds& a, const Bounds& b, DType dtype);
// CMPLT and CMPNE, as bounds of the resulting bool.
Bounds OfComparison(Op op, const Bounds& a, const Bounds& b);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_INTERVAL_H_
