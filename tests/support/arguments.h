// Arguments for a graph: random small numbers, on which sums and products of
// floats are exact.
#ifndef KILN_TESTS_SUPPORT_ARGUMENTS_H_
#define KILN_TESTS_SUPPORT_ARGUMENTS_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

// One tensor for each slot of `graph`. Floats are integers in [-8, 8]; integers
// are small too, one in eight of any value.
absl::StatusOr<compiler::HostTensors> RandomArguments(const v1::Graph& graph, uint64_t seed,
                                                      const compiler::VariableValues& variables = {});

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ARGUMENTS_H_
