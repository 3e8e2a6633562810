// Lanes become scalars, for languages whose operators take no vectors.
#ifndef KILN_COMPILER_TARGET_CSTYLE_SCALARIZE_H_
#define KILN_COMPILER_TARGET_CSTYLE_SCALARIZE_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/program/list_rewrite.h"
#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {

// How the reads of one place are told apart.
enum class Reads {
  kInOrder,  // by their pointers: each lane's is marked with that of all
  kNamed,    // by what the caller puts around them (program/program_values.h)
};

// For a node whose sources have been through it: in scalars, as below. A STORE or
// ATOMICADD of several lanes becomes a GROUP, a value a STACK.
NodeRule ScalarizeRule(Graph& graph, const Dialect& dialect, Reads reads);

// A linear program in which every value is a scalar, but for LOADs and STOREs of
// aligned neighbours that the dialect has a vector type for, and in which storage
// has one axis. UNSUPPORTED_OP for values of several axes, and for a WMMA by
// several items.
absl::StatusOr<UOp*> Scalarize(Graph& graph, UOp* linear, const Dialect& dialect);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_SCALARIZE_H_
