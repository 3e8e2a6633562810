// The GPUs there is code for.
#ifndef KILN_COMPILER_TARGET_GPU_ARCHITECTURES_H_
#define KILN_COMPILER_TARGET_GPU_ARCHITECTURES_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

struct GpuArchitecture {
  const char* name;  // LLVM's: "sm_90a", "gfx942"
  v1::Target::Kind kind;
  const char* product;    // for people
  uint32_t lanes;         // items that step together: of a warp, of a wavefront
  uint32_t shared_bytes;  // the most shared memory of a group
};

// NVIDIA's, then AMD's; each older first.
absl::Span<const GpuArchitecture> GpuArchitectures();

// Null if there is no code for `name`.
const GpuArchitecture* FindGpuArchitecture(absl::string_view name);

// None if there is no code for `name`.
std::optional<v1::Target> GpuTarget(absl::string_view name);

// "sm_80, sm_90a, …"
std::string GpuArchitectureNames();

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_GPU_ARCHITECTURES_H_
