// LOCAL storage of a work group, and REG storage of an item, begin as zeros, which no GPU does by
// itself: no group may read what another one left there.
#ifndef KILN_COMPILER_PROGRAM_ZERO_SHARED_H_
#define KILN_COMPILER_PROGRAM_ZERO_SHARED_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `linear`, a program with work items, behind STOREs of zeros to its LOCAL BUFFERs, a place for each
// item in turn, and a BARRIER. The same if it has none.
UOp* ZeroShared(Graph& graph, UOp* linear);

// The same for REG BUFFERs, each item all of its own: for targets whose declarations do not say it.
UOp* ZeroRegisters(Graph& graph, UOp* linear);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_ZERO_SHARED_H_
