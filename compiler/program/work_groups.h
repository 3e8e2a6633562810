// Work groups on one thread: SPECIALs become loops.
//
// The groups are one loop, which threads share. The items of a group are a loop,
// too: as BARRIER lets none of them on before all are there, it ends one such loop
// and begins the next. A loop or an IF that holds a BARRIER is the same for all
// items and stands around their loops. What one item computes before a BARRIER and
// uses behind it is computed again, or, if it was read from memory, kept in memory
// with a place for each item; so are REG buffers.
#ifndef KILN_COMPILER_PROGRAM_WORK_GROUPS_H_
#define KILN_COMPILER_PROGRAM_WORK_GROUPS_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// How storage comes to hold zeros when its life begins.
enum class Zeros {
  kStored,    // STOREs follow the BUFFER
  kDeclared,  // the BUFFER, where it is listed, says so itself
};

// `linear` is a program as ProveProgramBounds leaves it. Afterwards there is no
// SPECIAL and no BARRIER; at most one RANGE, the outermost, is a kThread; and a
// BUFFER is listed where its life begins, as zeros.
// GRAPH_TOO_LARGE if one group needs more memory than a thread's stack should hold.
absl::StatusOr<UOp*> LowerWorkGroups(Graph& graph, UOp* linear, Zeros zeros = Zeros::kStored);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_WORK_GROUPS_H_
