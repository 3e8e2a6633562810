// Puts an Executable together from a call list and its memory plan.
#ifndef KILN_COMPILER_LOWER_EXECUTABLE_BUILDER_H_
#define KILN_COMPILER_LOWER_EXECUTABLE_BUILDER_H_

#include "compiler/batch/batching.h"
#include "compiler/lower/compile_kernels.h"
#include "compiler/schedule/callify.h"
#include "compiler/schedule/memory/memory_plan.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::compiler {

// How the function is called, from its parameters and results, and what is known of its variables.
v1::Signature SignatureOf(const Function& function, absl::Span<const Batching> batching = {});

// A symbolic size in postfix, over the variables of the signature.
v1::SizeExpr ToPostfix(const UOp* size, absl::Span<UOp* const> variables);

// Adds the arena, the constants, a step for each CALL of `linear`, of which call i runs
// as `compiled[i]` says, and what these want prepared, each different one once.
void AddSteps(const Function& function, const UOp* linear, const MemoryPlan& plan,
              absl::Span<const CompiledCall> compiled, v1::Executable& executable);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_EXECUTABLE_BUILDER_H_
