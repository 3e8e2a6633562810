// Linearize: a kernel's graph becomes a list of instructions in the order they
// run.
#ifndef KILN_COMPILER_KERNEL_LINEARIZE_H_
#define KILN_COMPILER_KERNEL_LINEARIZE_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// LINEAR(instruction...): RANGE opens a loop, the END that has it closes it, and
// every other node stands in the innermost loop that it depends on, so nothing
// is computed more often than it changes.
UOp* Linearize(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_LINEARIZE_H_
