// The interpreter for kernels: runs one kernel at any stage of its lowering, iteration
// by iteration and node by node, and refuses any access outside its buffers. Slow; it
// is what passes over kernels are compared with.
#ifndef KILN_COMPILER_INTERP_KERNEL_EVAL_H_
#define KILN_COMPILER_INTERP_KERNEL_EVAL_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The elements of each buffer by the slot of its PARAM, as bits in ConstArg's form.
using KernelMemory = std::map<uint32_t, std::vector<uint64_t>>;

// Runs `kernel` on `memory`, which has each of its PARAMs in full:
//   SINK    of STOREs under ENDs, before or after its lanes are shapes;
//   LINEAR  of instructions in order, with accumulators in registers.
// OUT_OF_RANGE for an access outside its buffer, RESOURCE_EXHAUSTED above
// `max_steps` evaluations, UNIMPLEMENTED for what no compiled kernel has.
absl::Status EvalKernel(UOp* kernel, KernelMemory& memory, int64_t max_steps = 50'000'000);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_KERNEL_EVAL_H_
