// A chain of kernels (schedule/chain/chain.h) down to accumulators: each of its nests by itself, as if it
// were a kernel of its own, and then all of them in the loop over slices.
#ifndef KILN_COMPILER_LOWER_LOWER_CHAIN_H_
#define KILN_COMPILER_LOWER_LOWER_CHAIN_H_

#include <string>

#include "absl/status/statusor.h"
#include "compiler/lower/lower_kernel.h"

namespace kiln::compiler {

bool IsChain(const UOp* kernel);

// As LowerToAccumulators, of a chain. A schedule of it is the schedules of its nests, in the order in which
// they run, with " | " between them. Slices are what threads share.
absl::StatusOr<LoweredKernel> LowerChain(Graph& graph, Pipeline& pipeline, UOp* kernel, uint32_t slots,
                                         const v1::Target& target, const CodeGenerator& generator,
                                         const Options& options, const std::string* schedule);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_LOWER_CHAIN_H_
