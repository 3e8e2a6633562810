#include "compiler/target/gpu/architectures.h"

#include "absl/strings/str_cat.h"

namespace kiln::compiler {
namespace {

// A new one is a row here, and whatever of its instructions the tables beside this know.
// Shared memory: CUDA programming guide, "technical specifications per compute capability"; AMD's ISA manuals, LDS.
constexpr GpuArchitecture kArchitectures[] = {
    {"sm_80", v1::Target::NVPTX, "A100", 32, 163 << 10},
    {"sm_90a", v1::Target::NVPTX, "H100, H200", 32, 227 << 10},
    {"sm_100a", v1::Target::NVPTX, "B200", 32, 227 << 10},
    {"sm_120a", v1::Target::NVPTX, "RTX 50", 32, 99 << 10},
    {"gfx90a", v1::Target::AMDGPU, "MI200", 64, 64 << 10},
    {"gfx942", v1::Target::AMDGPU, "MI300", 64, 64 << 10},
    {"gfx1100", v1::Target::AMDGPU, "RX 7900", 32, 64 << 10},
    {"gfx1200", v1::Target::AMDGPU, "RX 9060", 32, 64 << 10},
};

}  // namespace

absl::Span<const GpuArchitecture> GpuArchitectures() { return kArchitectures; }

const GpuArchitecture* FindGpuArchitecture(absl::string_view name) {
  for (const GpuArchitecture& known : kArchitectures) {
    if (name == known.name) return &known;
  }
  return nullptr;
}

std::optional<v1::Target> GpuTarget(absl::string_view name) {
  const GpuArchitecture* known = FindGpuArchitecture(name);
  if (known == nullptr) return std::nullopt;
  v1::Target target;
  target.set_kind(known->kind);
  target.set_triple(known->kind == v1::Target::NVPTX ? "nvptx64-nvidia-cuda" : "amdgcn-amd-amdhsa");
  target.set_arch(known->name);
  target.mutable_tuning()->set_lanes(known->lanes);
  target.mutable_tuning()->set_shared_bytes(known->shared_bytes);
  return target;
}

std::string GpuArchitectureNames() {
  std::string names;
  for (const GpuArchitecture& known : kArchitectures) absl::StrAppend(&names, names.empty() ? "" : ", ", known.name);
  return names;
}

}  // namespace kiln::compiler
