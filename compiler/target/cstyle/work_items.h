// Work items for languages that have none of their own, and shared memory that
// begins as zeros for those that do.
#ifndef KILN_COMPILER_TARGET_CSTYLE_WORK_ITEMS_H_
#define KILN_COMPILER_TARGET_CSTYLE_WORK_ITEMS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Each SPECIAL becomes a loop around the whole program, groups outside items; an
// ATOMICADD becomes a read, an addition and a write. UNSUPPORTED_OP for a BARRIER
// among several items: there, the loop would have to end and begin anew.
absl::StatusOr<UOp*> LoopOverItems(Graph& graph, UOp* linear);

// A group's storage, which holds anything at first, is set to zero by its items
// together before the program begins.
absl::StatusOr<UOp*> ZeroShared(Graph& graph, UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_WORK_ITEMS_H_
