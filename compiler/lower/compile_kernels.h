// Compiles the kernels of a call list, each different one once.
#ifndef KILN_COMPILER_LOWER_COMPILE_KERNELS_H_
#define KILN_COMPILER_LOWER_COMPILE_KERNELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/pass/lowering.h"

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

// `calls`: LINEAR of CALLs. A body is a SINK (kKernelSpec) or a LINEAR (a program). Adds the kernels, in order
// of first use, and the cost of all, to `executable`.
absl::StatusOr<std::vector<CompiledCall>> CompileKernels(Lowering& lowering, const UOp* calls);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_LOWER_COMPILE_KERNELS_H_
