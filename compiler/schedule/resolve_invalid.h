// Invalid becomes ordinary values: beside every value that may be Invalid
// somewhere stands a bool tensor that says where it is not.
#ifndef KILN_COMPILER_SCHEDULE_RESOLVE_INVALID_H_
#define KILN_COMPILER_SCHEDULE_RESOLVE_INVALID_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Rewrites a Callify'd SINK. Where docs/ir.md lets Invalid show, its meaning is
// written out: a STORE to a parameter gets a gate, a result and a LOAD get 0, a
// REDUCE gets its identity, an INDEX by Invalid reads out of range. Beyond this
// point no CONST is Invalid and every PAD has a fill, so any value may be
// realised and read again. `sink` itself if nothing in it is ever Invalid.
UOp* ResolveInvalid(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_RESOLVE_INVALID_H_
