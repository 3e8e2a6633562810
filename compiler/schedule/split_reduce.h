// Reductions to few values, in two steps, so that threads can share them.
//
// The loops that threads share are those of a kernel's output; a sum of everything has
// none. Its source is cut into parts, as many as its size says and no thread's count
// does: so the sum is the same on any number of threads. Parts are summed into a buffer, and
// that is summed.
#ifndef KILN_COMPILER_SCHEDULE_SPLIT_REDUCE_H_
#define KILN_COMPILER_SCHEDULE_SPLIT_REDUCE_H_

#include "absl/container/flat_hash_set.h"
#include "compiler/ir/graph.h"
#include "compiler/schedule/store_order.h"

namespace kiln::compiler {

// `sink` with each large REDUCE to few values in two steps. The first of the two is added
// to `marked`: it is to be realised. Products, and what collapses, stay as they are.
UOp* SplitReductions(Graph& graph, UOp* sink, absl::flat_hash_set<UOp*>& marked);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_SPLIT_REDUCE_H_
