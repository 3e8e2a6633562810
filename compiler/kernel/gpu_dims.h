// Parallel loops become coordinates of work groups and items.
#ifndef KILN_COMPILER_KERNEL_GPU_DIMS_H_
#define KILN_COMPILER_KERNEL_GPU_DIMS_H_

#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The most items that a work group gets by itself, and at all.
inline constexpr int64_t kMaxItems = 256, kMaxItemsOfGroup = 1024;

// For a target that has work items: each output loop of the kernel whose iterations are apart (loops_apart.h) becomes a
// SPECIAL; the others keep their order in each item. What is not LOCAL is a group: gidx0 counts fastest, and what is
// beyond three goes into it.
//
// Of a kernel with no schedule, the innermost loop is shared between the items of a group (lidx0) and its groups.
//
// Of one that has: LOCAL loops, and the GROUP_REDUCE loops of REDUCEs, are items. A REDUCE keeps the SPECIAL of such a
// loop among its sources: it reduces over the items of a group, and all of them get the result. Loops that never stand
// in each other share a coordinate, if they are of one size: an output's loop walks what a REDUCE has reduced by the
// same items. The coordinate along which memory is walked in the smallest steps is lidx0; of such with equal steps, the
// one of fewer items. What does not depend on an item is stored by the first. Loops on which some REDUCE does not
// depend are loops of each item, unless they are GLOBAL: in several groups, each would reduce the same. Without
// `reduces_over_items`, GROUP_REDUCE loops stay loops.
UOp* GpuDims(Graph& graph, UOp* sink, bool reduces_over_items);

// The items of a group along each coordinate that the LOCAL and GROUP_REDUCE loops of `sink` ask for: of more than
// three, or of more than kMaxItemsOfGroup together, GpuDims takes some as loops.
std::vector<int64_t> ItemsAskedFor(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_GPU_DIMS_H_
