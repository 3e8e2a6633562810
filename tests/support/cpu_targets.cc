#include "tests/support/cpu_targets.h"

#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"
#include "compiler/structure/core_product.h"

namespace kiln::testing {
namespace {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

constexpr CpuModel kModels[] = {
    {"nehalem", 16, 16, 1, 32 * kKiB, 256 * kKiB, 8 * kMiB, ""},
    {"znver2", 32, 16, 16, 32 * kKiB, 512 * kKiB, 16 * kMiB, ""},
    {"cascadelake", 64, 32, 4, 32 * kKiB, 1 * kMiB, 36 * kMiB, "+avx512vnni"},
    {"sapphirerapids", 64, 32, 2, 48 * kKiB, 2 * kMiB, 28 * kMiB, "+avx512bf16,+avx512vnni"},
};

}  // namespace

absl::Span<const CpuModel> CpuModels() { return kModels; }

v1::Target TunedFor(const CpuModel& cpu, v1::Target host) {
  v1::Target::Tuning& tuning = *host.mutable_tuning();
  tuning.set_vector_bytes(cpu.vector_bytes);
  tuning.set_vector_registers(cpu.vector_registers);
  tuning.set_cores(cpu.cores);
  tuning.set_l1_bytes(cpu.l1_bytes);
  tuning.set_l2_bytes(cpu.l2_bytes);
  tuning.set_l3_bytes(cpu.l3_bytes);
  return host;
}

v1::Target TargetOf(const CpuModel& cpu) {
  v1::Target target;
  target.set_kind(v1::Target::CPU);
  target.set_triple("x86_64-unknown-linux-gnu");
  target.set_arch(cpu.arch);
  if (cpu.vector_bytes >= 32) target.add_features("+avx2");
  if (cpu.vector_bytes >= 64) {
    for (const char* feature : {"+avx512bw", "+avx512dq", "+avx512f", "+avx512vl"}) target.add_features(feature);
  }
  for (const absl::string_view feature : absl::StrSplit(cpu.dots, ',', absl::SkipEmpty()))
    target.add_features(std::string(feature));
  if (cpu.vector_bytes >= 32) target.add_features("+fma");
  return TunedFor(cpu, std::move(target));
}

v1::Target TargetWithTiles() {
  v1::Target target = TargetOf(kModels[std::size(kModels) - 1]);
  for (const char* feature : {"+amx-bf16", "+amx-int8", "+amx-tile"}) target.add_features(feature);
  return target;
}

v1::Target WithTileLoops(v1::Target host) {
  for (const char* feature : {"+amx-bf16", "+amx-int8", compiler::kMatrixUnitByLoops}) host.add_features(feature);
  host.mutable_tuning()->set_vector_bytes(64);
  host.mutable_tuning()->set_vector_registers(32);
  return host;
}

}  // namespace kiln::testing
