// Makes a linear program sayable in a dialect, before anything is written.
#ifndef KILN_COMPILER_TARGET_CSTYLE_LOWER_H_
#define KILN_COMPILER_TARGET_CSTYLE_LOWER_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {

// `linear`: a kernel as Linearize leaves it, of scalars and lanes. What comes out
// holds only what KernelText can write in `dialect`. UNSUPPORTED_OP, with the node
// named, for what cannot be: a type or a function that the language lacks, a
// SPECIAL without work items, vectors of several axes.
absl::StatusOr<UOp*> LowerForDialect(Graph& graph, UOp* linear, const Dialect& dialect);

// The same for `linear`, made from `program` and, but for the numbers of its reads,
// ready (program.h).
absl::StatusOr<UOp*> LowerProgramForDialect(Graph& graph, UOp* linear, UOp* program, const Dialect& dialect);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_LOWER_H_
