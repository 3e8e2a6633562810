// Programs written by hand, on their way to text: what they do in memory is known
// to be harmless before they come here (lower/compile_kernels.cc); here it is put into the
// words of a dialect.
#ifndef KILN_COMPILER_TARGET_CSTYLE_PROGRAM_H_
#define KILN_COMPILER_TARGET_CSTYLE_PROGRAM_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {

// `linear`, of effects and reads (program/program_values.h), in scalars (scalarize.h).
// For a dialect with work items, LOCAL storage is filled with zeros by a group's
// items together before the program begins; for one without, an ATOMICADD is a
// read, an addition and a write. UNSUPPORTED_OP as Scalarize.
absl::StatusOr<UOp*> SelectProgramValues(Graph& graph, UOp* linear, const Dialect& dialect);

// `linear`, as PlaceValues (program/place.h) leaves it, for KernelText: a read is a
// LOAD of a pointer of its own, and every parameter of `program`, which it was made
// from, is there, be it read or not.
UOp* NumberReads(Graph& graph, UOp* linear, UOp* program);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_PROGRAM_H_
