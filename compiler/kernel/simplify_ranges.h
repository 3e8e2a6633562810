// Merges neighbouring loops that every access walks as one: fewer, longer loops
// for the vectorizer and the threads.
#ifndef KILN_COMPILER_KERNEL_SIMPLIFY_RANGES_H_
#define KILN_COMPILER_KERNEL_SIMPLIFY_RANGES_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Two neighbouring RANGEs become one if that adds no division to the kernel.
UOp* SimplifyRanges(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_SIMPLIFY_RANGES_H_
