// A program written by hand, from the instructions of one work item to loops over
// groups and items.
#ifndef KILN_COMPILER_LOWER_PROGRAM_H_
#define KILN_COMPILER_LOWER_PROGRAM_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options.h"
#include "compiler/pass/pipeline.h"

namespace kiln::compiler {

// `program` is a LINEAR of instructions: a request's root, or the body of a CALL.
absl::StatusOr<UOp*> LowerProgram(Graph& graph, Pipeline& pipeline, UOp* program, const Options& options);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_PROGRAM_H_
