// Short names for making nodes. Each returns the interned node, without any
// simplification: that is the rules' work.
#ifndef KILN_COMPILER_IR_BUILD_H_
#define KILN_COMPILER_IR_BUILD_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The low bits of an integer of this dtype, extended to 64 as ConstArg says.
uint64_t WrapInt(DType dtype, uint64_t bits);

// A CONST whose value is `bits` in `dtype` (see ConstArg).
UOp* ConstBits(Graph& graph, DType dtype, uint64_t bits);
// An integer or bool CONST; the value wraps to the dtype.
UOp* ConstInt(Graph& graph, DType dtype, int64_t value);
// A number of any dtype: integers wrap, floats round.
UOp* ConstNumber(Graph& graph, DType dtype, double value);
// 0, 1, or the least value of a dtype (-inf for floats): what ADD, MUL and MAX
// start from.
UOp* Identity(Graph& graph, Op reduce_op, DType dtype);

// An integer of the index type.
UOp* Idx(Graph& graph, int64_t value);
// A shape source: STACK of weak integers, or of int64 if a size is symbolic.
UOp* ShapeSource(Graph& graph, const Shape& shape);

UOp* Add(Graph& graph, UOp* a, UOp* b);
UOp* Mul(Graph& graph, UOp* a, UOp* b);
UOp* Lt(Graph& graph, UOp* a, UOp* b);
UOp* And(Graph& graph, UOp* a, UOp* b);
UOp* Not(Graph& graph, UOp* a);
UOp* Where(Graph& graph, UOp* condition, UOp* a, UOp* b);
UOp* Cast(Graph& graph, UOp* x, DType dtype);  // x itself if it has the dtype
UOp* Bitcast(Graph& graph, UOp* x, DType dtype);

UOp* Reshape(Graph& graph, UOp* x, const Shape& shape);
UOp* Expand(Graph& graph, UOp* x, const Shape& shape);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_BUILD_H_
