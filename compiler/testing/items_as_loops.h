// Kernels of work items on one processor: each coordinate is a loop.
#ifndef KILN_COMPILER_TESTING_ITEMS_AS_LOOPS_H_
#define KILN_COMPILER_TESTING_ITEMS_AS_LOOPS_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `sink`, which GpuDims made, with a loop for each SPECIAL: of the output, and of their own for REDUCEs over items.
UOp* ItemsAsLoops(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TESTING_ITEMS_AS_LOOPS_H_
