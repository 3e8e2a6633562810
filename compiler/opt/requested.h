// The OptOps that a client's kernel brings (KernelInfo.opts).
//
//   SPLIT   axis, (factor, target AxisType, top): axis n becomes (n / factor, factor),
//           or (factor, n / factor) with top. UPCAST splits an output axis and UNROLL a
//           reduced one: their parts become lanes. LOCAL and THREAD split an output
//           axis, GROUP_REDUCE a reduced one: on this target their parts are loops.
//   PADTO   axis, (multiple)
//   SWAP    axis, (axis): two axes of the output, or two of one REDUCE
//   NOLOCALS
// Axes count from 0: those of the output, outermost first, then those of the REDUCEs;
// what became lanes has no number any more.
#ifndef KILN_COMPILER_OPT_REQUESTED_H_
#define KILN_COMPILER_OPT_REQUESTED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Applies `opts` to the plain kernel `sink` from left to right, and lets threads
// share its outermost loop. BAD_ARGUMENT names the OptOp by its place, what is wrong
// with it and what is legal; UNSUPPORTED_OP for TC.
absl::StatusOr<UOp*> ApplyRequested(Graph& graph, UOp* sink, const std::vector<OptArg>& opts);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_REQUESTED_H_
