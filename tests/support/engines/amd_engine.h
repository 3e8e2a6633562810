// Wire graphs as code for AMD's GPUs, run by the machine of tests/support/amd on this computer.
#ifndef KILN_TESTS_SUPPORT_ENGINES_AMD_ENGINE_H_
#define KILN_TESTS_SUPPORT_ENGINES_AMD_ENGINE_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/interp/interp.h"
#include "compiler/options/options.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/graph.pb.h"
#include "tests/support/guarded_buffer.h"

namespace kiln::testing {

// Compiles for `architecture` ("gfx942") and runs each step's kernel as its launch says. Buffers lie at the `side` of
// their mappings: those that end with them begin anywhere, and kernels take their way for such.
class AmdEngine {
 public:
  explicit AmdEngine(std::string architecture, GuardedBuffer::Side side = GuardedBuffer::Side::kBegin)
      : architecture_(std::move(architecture)), side_(side) {}

  // From now on it is compiled for a device with so many cores.
  void set_cores(uint32_t cores) { cores_ = cores; }

  absl::StatusOr<compiler::InterpResult> Run(const v1::Graph& graph, const compiler::HostTensors& arguments,
                                             const compiler::Options& options,
                                             const compiler::VariableValues& variables = {});

 private:
  const std::string architecture_;
  const GuardedBuffer::Side side_;
  uint32_t cores_ = 0;  // 0: not said
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_ENGINES_AMD_ENGINE_H_
