// Parallel loops become coordinates of work groups and items.
#ifndef KILN_COMPILER_KERNEL_GPU_DIMS_H_
#define KILN_COMPILER_KERNEL_GPU_DIMS_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The most items that a work group gets.
inline constexpr int64_t kMostItems = 256;

// For a target that has work items: each output loop of the kernel becomes a
// SPECIAL. The innermost one is shared between the items of a group (lidx0) and
// its groups, the others are groups: gidx0 counts fastest, and what is beyond
// three goes into it. Loops typed GLOBAL or LOCAL become what they say. A kernel
// whose turns may store to one place keeps its loops, and their order.
UOp* GpuDims(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_GPU_DIMS_H_
