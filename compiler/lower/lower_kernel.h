// One kernel of loops, from Rangeify or from a client, down to instructions.
#ifndef KILN_COMPILER_LOWER_LOWER_KERNEL_H_
#define KILN_COMPILER_LOWER_LOWER_KERNEL_H_

#include "absl/status/statusor.h"
#include "compiler/pass/lowering.h"

namespace kiln::compiler {

// All take their kernel's symbol, arguments, target and schedule from `body`, where they leave what they
// chose and found.

// `kernel` is a SINK that satisfies kKernelSpec, or a chain (chain_nests.h). Returns a LINEAR of kLinearSpec,
// in ops that the generator takes.
absl::StatusOr<UOp*> LowerKernel(Lowering& lowering, UOp* kernel);

// The same but for the last stage, of no chain: what it returns is still a SINK, of kAccumulatingSpec.
absl::StatusOr<UOp*> LowerToAccumulators(Lowering& lowering, UOp* kernel);

// LowerKernel without its first stage, for a kernel whose loop nest is fixed: one that was hoisted.
absl::StatusOr<UOp*> LowerScheduled(Lowering& lowering, UOp* kernel);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_LOWER_KERNEL_H_
