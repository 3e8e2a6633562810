// A wire graph, run by the interpreter.
#ifndef KILN_TESTS_SUPPORT_ENGINES_INTERP_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_INTERP_ENGINE_H_

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

absl::StatusOr<compiler::InterpResult> RunInterpreted(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                                      const compiler::VariableValues& variables = {});

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_INTERP_ENGINE_H_
