#include "compiler/lower_program.h"

#include "base/error.h"

namespace kiln::compiler {

absl::StatusOr<UOp*> LowerProgram(Graph& graph, Pipeline&, UOp* program, const Options&) {
  return graph.Locate(MakeError(v1::UNSUPPORTED_OP, "LINEAR programs are not compiled by this version"), program);
}

}  // namespace kiln::compiler
