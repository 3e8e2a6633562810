// Weak scalars: a frontend's own numbers, which take the dtype of whatever
// strong operand they meet (docs/ir.md, "Scalars").
#ifndef KILN_COMPILER_IMPORT_WEAK_H_
#define KILN_COMPILER_IMPORT_WEAK_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The dtype in which `a` and `b` meet: equal ones stay; a weak one yields.
// kNone if neither can yield.
DType Meet(DType a, DType b);

// The weak expression `x` computed in `dtype`: its constants keep their exact
// value until they are rounded to `dtype`. A strong `x` is cast.
absl::StatusOr<UOp*> Strengthen(Graph& graph, UOp* x, DType dtype);

// What a weak `x` becomes where nothing strong decides: int32, or int64 where
// its bounds need it; float32. A strong x stays.
absl::StatusOr<UOp*> StrengthenByDefault(Graph& graph, UOp* x);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_WEAK_H_
