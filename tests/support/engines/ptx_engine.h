// Wire graphs as code for NVIDIA's GPUs, run by the machine of tests/support/ptx on this computer.
#ifndef KILN_TESTS_SUPPORT_ENGINES_PTX_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_PTX_ENGINE_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/options/options.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/graph.pb.h"
#include "tests/support/ptx/machine.h"

namespace kiln::testing {

// Compiles for `architecture` ("sm_80") and runs each step's kernel as its launch says. Results, written storage and
// the arena begin as a pattern, so that what nobody writes shows; kernels may touch the operands of their step and
// nothing else. Shapes of results are the greatest, over all values of the variables.
class PtxEngine {
 public:
  explicit PtxEngine(std::string architecture = "sm_80") : architecture_(std::move(architecture)) {}

  absl::StatusOr<compiler::InterpResult> Run(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                             const compiler::Options& options,
                                             const compiler::VariableValues& variables = {});
  absl::StatusOr<compiler::InterpResult> Run(const v1::Executable& executable, const compiler::HostTensors& arguments,
                                             const compiler::VariableValues& variables = {});
  // The same with `module`, which has the executable's kernels, in the place of its object.
  absl::StatusOr<compiler::InterpResult> Run(const v1::Executable& executable, const ptx::Module& module,
                                             const compiler::HostTensors& arguments,
                                             const compiler::VariableValues& variables = {});

  // From now on it is a failure if two items use one byte of global memory, one of them writes, and nothing orders
  // them. What the compiler makes of a tensor graph never does; a client's own program may.
  void DetectGlobalRaces() { detect_global_races_ = true; }

  // From now on arguments and results begin so many bytes, below 256, behind a place where any device's memory may
  // begin: what a client's views do.
  void BeginBeside(uint64_t bytes) { beside_ = bytes; }

 private:
  const std::string architecture_;
  bool detect_global_races_ = false;
  uint64_t beside_ = 0;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_PTX_ENGINE_H_
