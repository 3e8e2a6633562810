#include "tests/support/interp_engine.h"

#include "base/error.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/wire.h"

namespace kiln::testing {

absl::StatusOr<compiler::InterpResult> RunInterpreted(const v1::Graph& graph, const compiler::HostTensors& arguments) {
  compiler::Graph nodes;
  KILN_ASSIGN_OR_RETURN(compiler::UOp * root, compiler::FromWire(graph, compiler::Limits(), nodes));
  return compiler::Interpret(root, arguments);
}

}  // namespace kiln::testing
