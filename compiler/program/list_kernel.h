// A kernel as a program: its nodes as instructions in order.
#ifndef KILN_COMPILER_PROGRAM_LIST_KERNEL_H_
#define KILN_COMPILER_PROGRAM_LIST_KERNEL_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `sink` as NormaliseKernel leaves it. Returns a LINEAR, a program. If all of
// the kernel is one nest, its GLOBAL loops become work groups; its LOCAL and WARP
// loops become the items of a group if it has LOCAL memory or a BARRIER. All other
// loops, whatever their AxisType, run in order. UNSUPPORTED_OP names an IF: a
// kernel's gates are those of its LOADs and STOREs.
absl::StatusOr<UOp*> ListKernel(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_LIST_KERNEL_H_
