// The interpreter: evaluates a tensor graph on host memory, one whole tensor
// after the other, in the simplest way. Every other engine is compared
// with it.
#ifndef KILN_COMPILER_INTERP_INTERP_H_
#define KILN_COMPILER_INTERP_INTERP_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/interp/tensor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// By slot.
using HostTensors = std::map<uint32_t, HostTensor>;

struct InterpResult {
  // One for each value among the root's sources, in order.
  std::vector<HostTensor> results;
  // The storage that the program wrote, as it is at the end.
  HostTensors written;
};

struct InterpOptions {
  // Most memory for tensors alive at one time; about 9 bytes an element.
  int64_t max_bytes = int64_t{1} << 30;
  // Of a program written by hand: instructions run, each lane of each item counted.
  int64_t max_steps = int64_t{1} << 31;
};

// Runs the program under `root` (a TUPLE or SINK as FromWire gives it).
// MISSING_ARGUMENT, BUFFER_SIZE_MISMATCH or BUFFER_DTYPE_MISMATCH for arguments
// that do not fit their slot; OUT_OF_MEMORY above the limit; UNSUPPORTED_OP for
// anything that is no tensor graph. Any thread; iterative.
absl::StatusOr<InterpResult> Interpret(UOp* root, const HostTensors& arguments, const InterpOptions& options = {});

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_INTERP_H_
