// OptOps of kernels that reduce what they read once: sums and maxima of rows, of
// columns and of everything, and kernels that use such a value in an elementwise
// expression of the same rows (softmax, layernorm).
//
// Memory is what they wait for, so each loop gets the lanes that memory likes, and as
// many vectors at once as hide the latency of the reduction:
//   along a row     lanes of the reduction, reduced at its end
//   along columns   lanes of the output, one accumulator each: rows are walked one
//                   after the other, as wide a piece of each as registers hold; or, where
//                   rows are long, from end to end, a few at a time (outer_reduce.h)
#ifndef KILN_COMPILER_OPT_CPU_REDUCTION_H_
#define KILN_COMPILER_OPT_CPU_REDUCTION_H_

#include <optional>
#include <vector>

#include "compiler/opt/apply.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// None if `sink` reduces nothing, reads something again in several iterations of its output
// loops (a product), or has no loop whose lanes are contiguous.
std::optional<std::vector<OptOp>> ChooseReductionOpts(UOp* sink, const v1::Target& target);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CPU_REDUCTION_H_
