// Range collapse: a reduction over a loop as an expression without the loop.
//
// Frontends have no op for arange, one_hot or gather: they send sums over
// comparisons of indices. Read literally, such a sum costs an iteration for each index
// there is. But what a comparison of affine forms says about the loop's counter r
// is an interval or one point, so the sum is known without counting:
//
//   sum over r of [lo <= r < hi] * c   =  c * clamp(hi - lo)      arange, tril
//   sum over r of [r == e] * f(r)      =  f(e) if 0 <= e < n      gather, embedding
//   any  over r of [lo <= r < hi]      =  lo < hi
#ifndef KILN_COMPILER_RULES_COLLAPSE_REDUCE_H_
#define KILN_COMPILER_RULES_COLLAPSE_REDUCE_H_

#include "absl/types/span.h"
#include "compiler/rewrite/rewrite.h"

namespace kiln::compiler {

// REDUCE with `reduce_op` of the scalar `value` over `ranges`, with as few of these
// loops as it can do with; all of them stay where nothing is known. `value` is
// simplified, and `simplify` applies SymbolicRules to what is made.
//
// Integers come out the same, bit for bit. Floats are summed by a product where
// the summands are equal. x * 0 counts as 0 where the factor 0 is the mask of a
// one-hot sum, even if x may be infinite or NaN: a table is looked up, not summed.
UOp* CollapseReduce(Graph& graph, Rewriter& simplify, Op reduce_op, UOp* value, absl::Span<UOp* const> ranges);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_COLLAPSE_REDUCE_H_
