// Programs for the cards of a machine that are not there.
#ifndef KILN_TESTS_DRIVERS_COMPILED_FOR_H_
#define KILN_TESTS_DRIVERS_COMPILED_FOR_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/compile.h"
#include "tests/drivers/gpu_machine.h"

namespace kiln::testing {

// What the compiler makes of `graph`; what the machine wants to know of it (GpuMachine::code_folder) it finds in a
// folder called `name`, in the place of what is there.
absl::StatusOr<v1::Executable> CompiledFor(const GpuMachine& machine, const v1::Target& target, const v1::Graph& graph,
                                           const compiler::Options& options, const std::string& name = "last");

}  // namespace kiln::testing

#endif  // KILN_TESTS_DRIVERS_COMPILED_FOR_H_
