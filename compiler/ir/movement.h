// Tensors moved and summed, without nodes that change nothing.
//
// Arguments must fit; sizes above the IR's limits are for the caller to check.
#ifndef KILN_COMPILER_IR_MOVEMENT_H_
#define KILN_COMPILER_IR_MOVEMENT_H_

#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// SIZE_OVERFLOW if the product of the sizes that are not 0 is more elements than a tensor may have.
absl::Status CheckElements(const Shape& shape);

// How far apart neighbours along each axis of a row-major tensor are, in elements.
Shape RowMajorStrides(const Shape& shape);

// x itself if it has the shape.
UOp* ReshapeTo(Graph& graph, UOp* x, const Shape& shape);
UOp* PermuteTo(Graph& graph, UOp* x, const std::vector<int64_t>& order);
std::vector<int64_t> InverseOrder(const std::vector<int64_t>& order);
// x inside `shape` at `offset`, all round it `fill` (a number).
UOp* PadWith(Graph& graph, UOp* x, const Shape& offset, const Shape& shape, double fill);
UOp* ShrinkTo(Graph& graph, UOp* x, const Shape& offset, const Shape& shape);
// Reduces the axes, which stay with size 1; x itself if there are none.
UOp* ReduceOver(Graph& graph, UOp* x, Op reduce_op, std::vector<int64_t> axes);
// The sum over all that broadcasting repeated: x's shape is `shape`, broadcast.
UOp* SumTo(Graph& graph, UOp* x, const Shape& shape);
// The number, everywhere.
UOp* Filled(Graph& graph, DType dtype, const Shape& shape, double number);
// 0, 1, ..., count - 1, of the index type; count at least 1.
UOp* Counting(Graph& graph, int64_t count);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IR_MOVEMENT_H_
