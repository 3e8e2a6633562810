// Each op of a tensor graph, on whole tensors.
#ifndef KILN_COMPILER_INTERP_EVAL_H_
#define KILN_COMPILER_INTERP_EVAL_H_

#include "absl/types/span.h"
#include "compiler/interp/tensor.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

using Operands = absl::Span<const Tensor* const>;

// What an INDEX outside its tensor gives: a read gives 0, the address of a write
// gives nothing.
enum class OutOfRange { kZero, kInvalid };

// A movement op but BITCAST. `sources` are those that carry data: the first,
// and of INDEX and STACK all. A PAD fills with its arg's value, or with Invalid
// if it has none or `outside` says so.
Tensor EvalMovement(const UOp& uop, Operands sources, OutOfRange outside);

Tensor EvalBitcast(const UOp& uop, const Tensor& x);

// An elementwise op over broadcast operands. Invalid spreads, except that WHERE
// looks only at the branch it takes.
Tensor EvalElementwise(const UOp& uop, Operands sources);

// Left to right in row-major order, Invalid elements skipped.
Tensor EvalReduce(const UOp& uop, const Tensor& x);

// LOAD(x, alt?, gate?): reads into memory, so nothing stays Invalid.
Tensor EvalLoad(const UOp& uop, Operands sources);

// `before` with `value` written wherever `address` (positions in `before`, of
// `value`'s shape or wider) is valid, `value` is, and `gate` (or null) is true.
Tensor EvalStore(const Tensor& before, const Tensor& address, const Tensor& value, const Tensor* gate);

// 0, 1, 2, … in the index type.
Tensor Iota(const Shape& shape);

// Strides that read a tensor of shape `from` as if it were broadcast to `to`.
Shape BroadcastStrides(const Shape& from, const Shape& to);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_EVAL_H_
