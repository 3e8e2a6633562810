#include "runtime/collective/thresholds.h"

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "runtime/collective/collective.h"

namespace kiln::runtime::collective {
namespace {

constexpr Choice kUntilMeasured = {kNaive, kAllToAll, kAllToAll};

// The first line of the file.
std::string Header(const std::string& topology) { return absl::StrCat("kiln collectives 1 ", topology); }

bool FindKind(const std::string& name, Kind& kind) {
  for (int i = 0; i < kKinds; ++i) {
    kind = static_cast<Kind>(i);
    if (KindName(kind) == name) return true;
  }
  return false;
}

bool FindAlgorithm(const std::string& name, Kind kind, AlgorithmId& id) {
  for (int i = 0; i < kAlgorithmCount; ++i) {
    id = static_cast<AlgorithmId>(i);
    if (AlgorithmOf(id).name == name) return AlgorithmOf(id).run[static_cast<int>(kind)] != nullptr;
  }
  return false;
}

}  // namespace

std::string TopologyOf(absl::Span<hal::Device* const> devices) {
  std::string text;
  for (const hal::Device* device : devices) {
    absl::StrAppend(&text, text.empty() ? "" : "; ", device->name(), " ", device->description());
  }
  return text;
}

Thresholds::Thresholds(std::string topology, std::string file)
    : topology_(std::move(topology)), file_(std::move(file)) {
  if (!file_.empty()) Read();
}

AlgorithmId Thresholds::Choose(Kind kind, uint32_t ranks, uint64_t bytes, bool in_rank_order) const {
  Choice choice = kUntilMeasured;
  {
    absl::MutexLock lock(&mutex_);
    if (const auto it = known_.find({kind, ranks}); it != known_.end()) choice = it->second;
  }
  const AlgorithmId id = choice[SizeClassOf(bytes)];
  return in_rank_order && !AlgorithmOf(id).rank_order ? kAllToAll : id;
}

bool Thresholds::ShouldMeasure(Kind kind, uint32_t ranks) {
  absl::MutexLock lock(&mutex_);
  return ranks > 1 && known_.count({kind, ranks}) == 0 && asked_.insert({kind, ranks}).second;
}

void Thresholds::Learn(Kind kind, uint32_t ranks, const Choice& choice) {
  absl::MutexLock lock(&mutex_);
  known_[{kind, ranks}] = choice;
  if (!file_.empty()) Write();
}

// A line: kind, participants, and an algorithm for each class.
void Thresholds::Read() {
  absl::MutexLock lock(&mutex_);
  std::ifstream file(file_);
  std::string line;
  if (!std::getline(file, line) || line != Header(topology_)) return;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string kind_name, name;
    uint32_t ranks = 0;
    Kind kind;
    Choice choice;
    bool good = (words >> kind_name >> ranks) && FindKind(kind_name, kind) && ranks <= kMaxRanks;
    for (AlgorithmId& id : choice) good = good && (words >> name) && FindAlgorithm(name, kind, id);
    if (good) known_[{kind, ranks}] = choice;
  }
}

void Thresholds::Write() const {
  const std::string draft = absl::StrCat(file_, ".", getpid());
  std::ofstream file(draft);
  file << Header(topology_) << "\n";
  for (const auto& [key, choice] : known_) {
    file << std::string(KindName(key.first)) << " " << key.second;
    for (const AlgorithmId id : choice) file << " " << AlgorithmOf(id).name;
    file << "\n";
  }
  file.close();
  // Readers see the whole file or none.
  if (!file || std::rename(draft.c_str(), file_.c_str()) != 0) std::remove(draft.c_str());
}

}  // namespace kiln::runtime::collective
