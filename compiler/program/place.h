// Puts a program's arithmetic back into its list: each node once, as far out of
// the loops as its sources allow, just before the first instruction there that
// needs it. Beyond this pass a LINEAR lists everything that an emitter has to do;
// a node that is needed in several IFs is listed in each.
#ifndef KILN_COMPILER_PROGRAM_PLACE_H_
#define KILN_COMPILER_PROGRAM_PLACE_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Of one kernel, once its work groups are loops.
inline constexpr size_t kMaxInstructions = 100'000;

// `linear` lists effects, reads and BUFFERs alone (program/work_groups.h).
// Arithmetic in an IF stays there. GRAPH_TOO_LARGE above kMaxInstructions.
absl::StatusOr<UOp*> PlaceValues(Graph& graph, UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_PLACE_H_
