// One run of an executable on host memory, kernel by kernel, by whatever can run one.
#ifndef KILN_TESTS_SUPPORT_EXECUTABLE_RUN_H_
#define KILN_TESTS_SUPPORT_EXECUTABLE_RUN_H_

#include <array>
#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/interp/interp.h"
#include "compiler/structure/variables.h"
#include "kiln/v1/executable.pb.h"
#include "tests/support/guarded_buffer.h"

namespace kiln::testing {

// What a kernel may touch of one operand.
struct OperandRange {
  uint64_t begin = 0, bytes = 0;
  bool writable = false;
};

struct KernelRun {
  const v1::Kernel& kernel;
  std::array<uint32_t, 3> groups, items;
  absl::Span<const uint64_t> arguments;  // for each operand an address or an integer
  absl::Span<const OperandRange> memory;
};

using RunKernel = std::function<absl::Status(const KernelRun&)>;

// Runs preparations, then steps. Results, written storage and the arena begin as a pattern, so that what nobody
// writes shows. Each buffer is a mapping with nothing around it: an access beyond it at its `side` ends the process,
// unless who runs kernels catches it, and a write beyond its other end is an error. Shapes of results are the
// greatest, over all values of the variables. Arguments and results begin `beside` bytes behind where their mappings
// do.
absl::StatusOr<compiler::InterpResult> RunExecutable(const v1::Executable& executable,
                                                     const compiler::HostTensors& arguments,
                                                     const compiler::VariableValues& variables,
                                                     GuardedBuffer::Side side, const RunKernel& run,
                                                     uint64_t beside = 0);

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_EXECUTABLE_RUN_H_
