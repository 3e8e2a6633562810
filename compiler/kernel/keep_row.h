// What a kernel computes twice for each row, kept in the row that it writes.
//
// softmax sums exp(x - most) along a row, and then needs each of these values again to
// divide it by the sum. Its row of the output is there anyway, and in the first-level
// cache while the row is at hand: so the loop that sums stores what it adds up, and the
// loop behind reads it where it will overwrite it.
#ifndef KILN_COMPILER_KERNEL_KEEP_ROW_H_
#define KILN_COMPILER_KERNEL_KEEP_ROW_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Of a kernel whose reductions are accumulators (reduce_to_acc.h). What is kept is the
// costliest value that the STORE's expression shares with one accumulation over an equal
// loop; nothing if there is none, or the output is also read or written under a gate.
UOp* KeepRow(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_KEEP_ROW_H_
