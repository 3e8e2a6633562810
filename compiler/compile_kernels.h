// Compiles the kernels of a call list, each different one once.
#ifndef KILN_COMPILER_COMPILE_KERNELS_H_
#define KILN_COMPILER_COMPILE_KERNELS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/options.h"
#include "compiler/pass/pipeline.h"
#include "compiler/target/target.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::compiler {

// GRAPH_TOO_LARGE, with the limit named, if `used` is above it.
absl::Status CheckLimit(absl::string_view limit, uint64_t limit_value, uint64_t used);

// `calls`: LINEAR of CALLs. A body is a SINK (kKernelSpec) or a LINEAR (a program).
// Adds the kernels, in order of first use, and the cost of all; returns which
// kernel each call runs.
absl::StatusOr<std::vector<uint32_t>> CompileKernels(Graph& graph, Pipeline& pipeline, const UOp* calls,
                                                     const v1::Target& target, const Options& options,
                                                     CodeGenerator& generator, v1::Executable& executable);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_COMPILE_KERNELS_H_
