// Proves every access of a kernel inside its buffer, or gates it.
#ifndef KILN_COMPILER_KERNEL_BOUNDS_H_
#define KILN_COMPILER_KERNEL_BOUNDS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// After this pass, whenever the gate of a LOAD or STORE holds (or has none), its
// index is in [0, size). Intervals decide, narrowed by what the gate says; where
// they cannot, the gate gets the comparison itself: a load then gives 0, a store
// does nothing. With `strict` such an access is refused instead. `gates`, unless
// null, is how many accesses got a comparison.
absl::StatusOr<UOp*> ProveBounds(Graph& graph, UOp* sink, bool strict, uint32_t* gates = nullptr);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_BOUNDS_H_
