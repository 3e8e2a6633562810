#include "runtime/drivers/cpu/cpu_name.h"

#include <algorithm>
#include <vector>

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/TargetParser/X86TargetParser.h"

namespace kiln::runtime::cpu {
namespace {

struct NamedCore {
  const char* name;
  std::vector<std::string> marks;  // that this core has and older ones of its maker do not
};

// Newest first. AMD's have sse4a, which tells them from Intel's. AMX is no mark: a process may not be allowed it.
const NamedCore kCores[] = {
    {"znver5", {"sse4a", "avx512vp2intersect", "avxvnni"}},
    {"znver4", {"sse4a", "avx512bf16", "avx512vbmi2"}},
    {"znver3", {"sse4a", "vaes", "pku"}},
    {"graniterapids", {"avx512fp16", "prefetchi"}},
    {"sapphirerapids", {"avx512fp16", "serialize"}},
    {"icelake-server", {"avx512vbmi2", "wbnoinvd"}},
    {"cascadelake", {"avx512vnni", "avx512bw"}},
    {"skylake-avx512", {"avx512bw", "avx512cd"}},
};

// Those that LLVM's name stands for; none if it knows no such CPU of x86.
std::set<std::string> FeaturesOf(const std::string& name) {
  if (llvm::X86::parseArchX86(name) == llvm::X86::CK_None) return {};
  llvm::SmallVector<llvm::StringRef, 96> known;
  llvm::X86::getFeaturesForCPU(name, known);
  std::set<std::string> features;
  for (const llvm::StringRef feature : known) features.insert(feature.str());
  return features;
}

bool HasAll(const std::set<std::string>& features, const std::vector<std::string>& marks) {
  return std::all_of(marks.begin(), marks.end(), [&](const std::string& mark) { return features.count(mark) != 0; });
}

}  // namespace

std::string CpuName(const std::string& guess, const std::set<std::string>& features) {
  const auto newest = std::find_if(std::begin(kCores), std::end(kCores),
                                   [&](const NamedCore& core) { return HasAll(features, core.marks); });
  if (newest == std::end(kCores) || HasAll(FeaturesOf(guess), newest->marks)) return guess;
  return newest->name;
}

}  // namespace kiln::runtime::cpu
