// The interpreter for programs written by hand: a LINEAR of instructions that
// every work item of every work group runs.
//
// One group after the other; all items of a group go through the list together,
// one instruction at a time, each of them only where it is active: a loop or an
// IF deactivates the items that do not run its body. So a BARRIER does nothing, and
// a race between items gives what some order of them gives.
#ifndef KILN_COMPILER_INTERP_PROGRAM_H_
#define KILN_COMPILER_INTERP_PROGRAM_H_

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"

namespace kiln::compiler {

// Runs `root`, a LINEAR as FromWire gives it. Errors of VerifyProgram and of
// Interpret; GRAPH_TOO_LARGE above options.max_steps.
absl::StatusOr<InterpResult> InterpretProgram(UOp* root, const HostTensors& arguments, const InterpOptions& options);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_PROGRAM_H_
