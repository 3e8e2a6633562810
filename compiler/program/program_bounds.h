// Every access of a hand-written program is proved inside its storage, or gated.
#ifndef KILN_COMPILER_PROGRAM_PROGRAM_BOUNDS_H_
#define KILN_COMPILER_PROGRAM_PROGRAM_BOUNDS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `linear` is a program as NameValues leaves it. Afterwards every pointer is
// INDEX(storage of one dimension, i), and i is inside wherever the gate of its
// LOAD or STORE holds; an ATOMICADD that needs a gate stands in an IF. What is
// known: the intervals of the indices, the access's own gate, and the gates of the
// IFs around it. With `strict`, OUT_OF_BOUNDS instead of a new gate, with the
// access named. `gates`, unless null, is how many accesses got a new gate.
absl::StatusOr<UOp*> ProveProgramBounds(Graph& graph, UOp* linear, bool strict, uint32_t* gates = nullptr);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_PROGRAM_BOUNDS_H_
