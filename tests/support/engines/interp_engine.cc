#include "tests/support/engines/interp_engine.h"

#include "base/error.h"
#include "compiler/import/wire.h"
#include "compiler/ir/graph.h"

namespace kiln::testing {

absl::StatusOr<compiler::InterpResult> RunInterpreted(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                                      const compiler::VariableValues& variables) {
  compiler::Graph nodes;
  KILN_ASSIGN_OR_RETURN(compiler::UOp * root, compiler::FromWire(graph, compiler::Limits(), nodes));
  KILN_ASSIGN_OR_RETURN(root, compiler::BindVariables(nodes, root, variables));
  return compiler::Interpret(root, arguments);
}

}  // namespace kiln::testing
