// A reduction's loop outside of loops of the output, its accumulators in memory.
//
// A sum of columns reads one element a row for each column. With the columns outside, each
// block of them that registers can hold walks through all rows: pieces of a KiB that lie pages
// apart, which no prefetcher foresees and for each of which DRAM opens a row. With the rows
// outside, a few rows at a time are read from end to end; the accumulators of all columns,
// more than registers hold, wait in a local array for the next rows.
#ifndef KILN_COMPILER_OPT_OUTER_REDUCE_H_
#define KILN_COMPILER_OPT_OUTER_REDUCE_H_

#include "absl/status/status.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// BAD_ARGUMENT with the reason if `reduced`, a loop of a REDUCE, cannot stand outside of
// `output`, a loop of the output: if the REDUCE does not depend on it, has no loop of its
// own, stands in another's, or reads what the kernel writes; or if a size is no number, or
// the accumulators are too large for local memory.
absl::Status CheckOuterReduce(UOp* sink, UOp* output, UOp* reduced);

// `sink` with `reduced` outside of `output` and of the output's loops and lanes inside that.
// Three nests in place of one: the accumulators are set; are updated with all elements; are read
// where the REDUCE was.
UOp* OuterReduce(Graph& graph, UOp* sink, UOp* output, UOp* reduced);

// Whether accumulators in local memory are updated outside of `range`, a loop of the output: were its iterations
// shared out, each thread would update all of them.
bool ReducesOutside(UOp* sink, UOp* range);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_OUTER_REDUCE_H_
