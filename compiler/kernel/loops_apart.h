// Which iterations of a kernel can never store to one place.
#ifndef KILN_COMPILER_KERNEL_LOOPS_APART_H_
#define KILN_COMPILER_KERNEL_LOOPS_APART_H_

#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Those of `loops`, loops of the kernel's output, of which any two iterations store to different places, whatever the
// iterations of the others are: they may run in any order, or at once. A loop whose iterations may collide, or whose
// bound is no number, is not among them, and keeps its order.
std::vector<UOp*> LoopsApart(UOp* sink, const std::vector<UOp*>& loops);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_LOOPS_APART_H_
