// A chain of kernels (schedule/chain/chain.h) down to accumulators: each of its nests by itself, as if it
// were a kernel of its own, and then all of them in the loop over slices.
#ifndef KILN_COMPILER_LOWER_LOWER_CHAIN_H_
#define KILN_COMPILER_LOWER_LOWER_CHAIN_H_

#include "absl/status/statusor.h"
#include "compiler/pass/lowering.h"

namespace kiln::compiler {

// As LowerToAccumulators, of a chain. A schedule of it is the schedules of its nests, in the order in which
// they run, with " | " between them. Slices are what threads share.
absl::StatusOr<UOp*> LowerChain(Lowering& lowering, UOp* kernel);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_LOWER_CHAIN_H_
