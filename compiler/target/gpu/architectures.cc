#include "compiler/target/gpu/architectures.h"

#include "absl/strings/str_cat.h"

namespace kiln::compiler {
namespace {

// A new one is a row here, and whatever of its instructions the tables beside this know.
constexpr GpuArchitecture kArchitectures[] = {
    {"sm_80", v1::Target::NVPTX, "A100"},       {"sm_90a", v1::Target::NVPTX, "H100, H200"},
    {"sm_100a", v1::Target::NVPTX, "B200"},     {"sm_120a", v1::Target::NVPTX, "RTX 50"},
    {"gfx90a", v1::Target::AMDGPU, "MI200"},    {"gfx942", v1::Target::AMDGPU, "MI300"},
    {"gfx1100", v1::Target::AMDGPU, "RX 7900"}, {"gfx1200", v1::Target::AMDGPU, "RX 9060"},
};

}  // namespace

absl::Span<const GpuArchitecture> GpuArchitectures() { return kArchitectures; }

std::optional<v1::Target> GpuTarget(absl::string_view name) {
  for (const GpuArchitecture& known : kArchitectures) {
    if (name != known.name) continue;
    v1::Target target;
    target.set_kind(known.kind);
    target.set_triple(known.kind == v1::Target::NVPTX ? "nvptx64-nvidia-cuda" : "amdgcn-amd-amdhsa");
    target.set_arch(known.name);
    return target;
  }
  return std::nullopt;
}

std::string GpuArchitectureNames() {
  std::string names;
  for (const GpuArchitecture& known : kArchitectures) absl::StrAppend(&names, names.empty() ? "" : ", ", known.name);
  return names;
}

}  // namespace kiln::compiler
