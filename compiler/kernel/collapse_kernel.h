// Range collapse in a client's kernel: an arange, a one-hot sum or a gather that is
// written with a loop is computed without it (compiler/rules/collapse_reduce.h). A
// tensor graph meets the same while its values are lowered.
#ifndef KILN_COMPILER_KERNEL_COLLAPSE_KERNEL_H_
#define KILN_COMPILER_KERNEL_COLLAPSE_KERNEL_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `sink` satisfies kKernelSpec, and does so afterwards.
UOp* CollapseKernel(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_COLLAPSE_KERNEL_H_
