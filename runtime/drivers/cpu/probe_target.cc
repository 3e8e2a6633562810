#include "runtime/drivers/cpu/probe_target.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/protobuf/text_format.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"
#include "runtime/drivers/cpu/cpu_name.h"

namespace kiln::runtime::cpu {
namespace {

struct VectorUnit {
  const char* feature;  // whose presence means it
  uint32_t bytes;
  uint32_t registers;
};
// The first that the host has is the widest.
constexpr VectorUnit kVectorUnits[] = {
    {"avx512f", 64, 32}, {"avx", 32, 16}, {"sse2", 16, 16}, {"neon", 16, 32}, {"v", 16, 32},
};
constexpr VectorUnit kNoVectorUnit = {"", 8, 16};

std::string ReadWord(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// "48K", "2M" or "512".
uint64_t ParseSize(std::string text) {
  uint64_t unit = 1;
  if (absl::EndsWith(text, "K")) unit = 1 << 10;
  if (absl::EndsWith(text, "M")) unit = 1 << 20;
  if (unit != 1) text.pop_back();
  uint64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? number * unit : 0;
}

// Bytes of the data or unified cache of a level, as the first core sees it; 0
// if the system does not say.
uint64_t CacheBytes(int level) {
  for (int index = 0; index < 8; ++index) {
    const std::string folder = absl::StrCat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    if (ReadWord(folder + "level") != absl::StrCat(level)) continue;
    if (ReadWord(folder + "type") == "Instruction") continue;
    return ParseSize(ReadWord(folder + "size"));
  }
  constexpr int kNames[] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE};
  const long bytes = sysconf(kNames[level - 1]);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

// Whether this process may use the registers of AMX, which are so large that a process must ask: from then on all of
// its threads have room for them (Linux, Documentation/arch/x86/xstate.rst).
bool MayUseTiles() {
#ifdef __x86_64__
  constexpr unsigned long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

uint64_t Or(uint64_t bytes, uint64_t common) { return bytes != 0 ? bytes : common; }

// What KILN_CPU_TARGET says.
absl::StatusOr<v1::Target> TargetTold() {
  v1::Target told;
  const char* text = std::getenv("KILN_CPU_TARGET");
  if (text == nullptr) return told;
  const bool read = google::protobuf::TextFormat::ParseFromString(text, &told);
  v1::Target others = told;
  others.clear_arch();
  others.clear_tuning();
  if (read && others.ByteSizeLong() == 0) return told;
  v1::ErrorDetail detail;
  detail.set_code(v1::BAD_ARGUMENT);
  detail.set_field("KILN_CPU_TARGET");
  return MakeError(detail, absl::StrCat("KILN_CPU_TARGET has \"", text,
                                        "\"; it takes the fields arch and tuning of kiln.v1.Target as text, such as "
                                        "\"tuning { l2_bytes: 2097152 cores: 8 }\""));
}

// Whether figures of this machine's core would be none of the CPU that it is told of.
bool TellsCore(const v1::Target& told) {
  return !told.arch().empty() || told.tuning().has_core() || told.tuning().vector_bytes() != 0;
}

}  // namespace

v1::Target ProbeTarget(uint32_t cores) {
  v1::Target target;
  target.set_kind(v1::Target::CPU);
  target.set_triple(llvm::Triple(llvm::sys::getProcessTriple()).normalize());

  std::map<std::string, bool> features;
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) features[feature.first().str()] = feature.second;
  if (features["amx-tile"] && !MayUseTiles()) {
    for (auto& [name, present] : features) present = present && !absl::StartsWith(name, "amx-");
  }
  std::vector<std::string> words;
  std::set<std::string> there;
  for (const auto& [name, present] : features) {
    words.push_back(absl::StrCat(present ? "+" : "-", name));
    if (present) there.insert(name);
  }
  target.set_arch(CpuName(llvm::sys::getHostCPUName().str(), there));
  std::sort(words.begin(), words.end());
  for (std::string& word : words) *target.add_features() = std::move(word);

  VectorUnit unit = kNoVectorUnit;
  for (const VectorUnit& candidate : kVectorUnits) {
    const auto it = features.find(candidate.feature);
    if (it == features.end() || !it->second) continue;
    unit = candidate;
    break;
  }
  v1::Target::Tuning& tuning = *target.mutable_tuning();
  tuning.set_vector_bytes(unit.bytes);
  tuning.set_vector_registers(unit.registers);
  tuning.set_cores(cores);
  tuning.set_l1_bytes(Or(CacheBytes(1), 32 << 10));
  tuning.set_l2_bytes(Or(CacheBytes(2), 1 << 20));
  tuning.set_l3_bytes(Or(CacheBytes(3), 8 << 20));
  return target;
}

absl::StatusOr<v1::Target> HostTarget(uint32_t cores, const v1::Target::Tuning::Core& core) {
  v1::Target target = ProbeTarget(cores);
  KILN_ASSIGN_OR_RETURN(const v1::Target told, TargetTold());
  if (!told.arch().empty()) target.set_arch(told.arch());
  target.mutable_tuning()->MergeFrom(told.tuning());
  // Nor do figures of vectors that this machine has not say anything of it.
  if (TellsCore(told) || core.vector_bytes() == 0 || core.vector_bytes() > target.tuning().vector_bytes())
    return target;
  *target.mutable_tuning()->mutable_core() = core;
  target.mutable_tuning()->set_vector_bytes(core.vector_bytes());
  return target;
}

absl::StatusOr<bool> IsToldOfCore() {
  KILN_ASSIGN_OR_RETURN(const v1::Target told, TargetTold());
  return TellsCore(told);
}

std::string DescribeCpu(uint32_t threads) {
  std::string model;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; model.empty() && std::getline(info, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos) model = std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  if (model.empty()) model = llvm::sys::getHostCPUName().str();
  return absl::StrCat(model, ", ", threads, threads == 1 ? " thread" : " threads");
}

}  // namespace kiln::runtime::cpu
