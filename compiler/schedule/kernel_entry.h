// Programs that are one kernel, written by the client: a SINK of loops, or a
// LINEAR of instructions. They have effects alone, on parameters updated in place.
#ifndef KILN_COMPILER_SCHEDULE_KERNEL_ENTRY_H_
#define KILN_COMPILER_SCHEDULE_KERNEL_ENTRY_H_

#include "absl/status/statusor.h"
#include "compiler/schedule/callify.h"

namespace kiln::compiler {

// A client's kernel `root`, a SINK or a LINEAR, as CompileKernels takes it: a SINK
// of kKernelSpec, or a LINEAR program.
absl::StatusOr<UOp*> BodyOf(Graph& graph, UOp* root);

// LINEAR(CALL(body, parameter...)) of the kernel under `root`, and how it is
// called in `function`. In the body slots are numbered by position.
absl::StatusOr<UOp*> EnterKernel(Graph& graph, UOp* root, Function& function);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_KERNEL_ENTRY_H_
