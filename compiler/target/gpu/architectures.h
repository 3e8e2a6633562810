// The GPUs there is code for.
#ifndef KILN_COMPILER_TARGET_GPU_ARCHITECTURES_H_
#define KILN_COMPILER_TARGET_GPU_ARCHITECTURES_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

struct GpuArchitecture {
  const char* name;  // LLVM's: "sm_90a", "gfx942"
  v1::Target::Kind kind;
  const char* product;  // for people
};

// NVIDIA's, then AMD's; each older first.
absl::Span<const GpuArchitecture> GpuArchitectures();

// None if there is no code for `name`.
std::optional<v1::Target> GpuTarget(absl::string_view name);

// "sm_80, sm_90a, …"
std::string GpuArchitectureNames();

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_ARCHITECTURES_H_
