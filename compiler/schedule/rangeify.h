// Rangeify: a function becomes a list of kernels. Values to realise are chosen,
// each gets a buffer and a kernel of loops, and the kernels an order in which
// every read sees the state that it must.
#ifndef KILN_COMPILER_SCHEDULE_RANGEIFY_H_
#define KILN_COMPILER_SCHEDULE_RANGEIFY_H_

#include "compiler/schedule/callify.h"

namespace kiln::compiler {

// LINEAR(CALL(kernel, buffer...)...), in the order to run. A kernel is
// SINK(END(STORE(INDEX(PARAM k, i), value, gate?), RANGE...)), outermost RANGE
// first, over PARAMs that number its buffers. Beyond this point no movement op
// exists, everything inside a kernel has the shape (), and the kernel split is
// fixed.
// UNSUPPORTED_OP if no order of kernels and copies lets every read see its state.
absl::StatusOr<UOp*> Rangeify(Graph& graph, const Function& function);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_RANGEIFY_H_
