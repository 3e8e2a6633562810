// A kernel graph, as a client sends it, written out as a program: the plain way.
//
// A kernel graph says what depends on what; a program says what comes when. Each
// END opens its loops, has what depends on them computed inside, and closes them;
// what does not depend on them is computed before. Nothing is clever here: a value
// that is needed in two places is computed twice.
#ifndef KILN_COMPILER_INTERP_KERNEL_LIST_H_
#define KILN_COMPILER_INTERP_KERNEL_LIST_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The LINEAR, in `graph`, of the instructions of `sink`, whose nodes may belong to
// another graph. An INDEX of memory used as a value is a LOAD; WHERE(gate, index,
// Invalid) in an INDEX is the access's gate; loops that no END closes are closed
// behind the effect that stands in them. UNSUPPORTED_OP for an IF, and for loops
// over LOCAL axes beside a BARRIER: SPECIALs say that.
absl::StatusOr<UOp*> ListKernelPlainly(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_KERNEL_LIST_H_
