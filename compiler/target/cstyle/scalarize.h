// Lanes become scalars, for languages whose operators take no vectors.
#ifndef KILN_COMPILER_TARGET_CSTYLE_SCALARIZE_H_
#define KILN_COMPILER_TARGET_CSTYLE_SCALARIZE_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/target/cstyle/dialect.h"

namespace kiln::compiler {

// A linear program in which every value is a scalar, but for LOADs and STOREs of
// aligned neighbours that the dialect has a vector type for, and in which storage
// has one axis. UNSUPPORTED_OP for values of several axes, and for a WMMA by
// several items.
absl::StatusOr<UOp*> Scalarize(Graph& graph, UOp* linear, const Dialect& dialect);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_CSTYLE_SCALARIZE_H_
