// Compiles the kernels of a call list, each different one once.
#ifndef KILN_COMPILER_LOWER_COMPILE_KERNELS_H_
#define KILN_COMPILER_LOWER_COMPILE_KERNELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "compiler/options/options.h"
#include "compiler/pass/pipeline.h"
#include "compiler/target/target.h"
#include "kiln/v1/executable.pb.h"

namespace kiln::compiler {

// GRAPH_TOO_LARGE, with the limit named, if `used` is above it.
absl::Status CheckLimit(absl::string_view limit, uint64_t limit_value, uint64_t used);

// What a kernel reads beside its arguments, made before its first run by another one,
// of the argument in place `slot` alone.
struct KernelPreparation {
  uint32_t slot = 0;
  uint32_t kernel = 0;  // takes that argument, and what it makes
  uint64_t bytes = 0;
  std::string key;
};

// Which kernel a call runs, and what is to be prepared for that.
struct CompiledCall {
  uint32_t kernel = 0;
  std::vector<KernelPreparation> preparations;
};

// `calls`: LINEAR of CALLs. A body is a SINK (kKernelSpec) or a LINEAR (a program).
// `constants`: arguments that stay the same from run to run. Adds the kernels, in order
// of first use, and the cost of all.
absl::StatusOr<std::vector<CompiledCall>> CompileKernels(Graph& graph, Pipeline& pipeline, const UOp* calls,
                                                         const absl::flat_hash_set<const UOp*>& constants,
                                                         const v1::Target& target, const Options& options,
                                                         CodeGenerator& generator, v1::Executable& executable);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_COMPILE_KERNELS_H_
