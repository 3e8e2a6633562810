// A program written by hand, from the instructions of one work item to loops over
// groups and items.
#ifndef KILN_COMPILER_LOWER_LOWER_PROGRAM_H_
#define KILN_COMPILER_LOWER_LOWER_PROGRAM_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options/options.h"
#include "compiler/pass/pipeline.h"
#include "compiler/target/target.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::compiler {

struct LoweredProgram {
  UOp* linear;          // for CodeGenerator::AddProgram
  uint64_t iterations;  // of its outermost loop
  v1::Cost cost;
  uint32_t gates;  // accesses that could not be proved
};

// `program` is a LINEAR of instructions: a request's root, or the body of a CALL.
// A fault names the client's node.
absl::StatusOr<LoweredProgram> LowerProgram(Graph& graph, Pipeline& pipeline, UOp* program, CodeGenerator& generator,
                                            const Options& options);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_LOWER_PROGRAM_H_
