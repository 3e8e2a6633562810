#include "runtime/drivers/cpu/control_groups.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace kiln::runtime::cpu {
namespace {

// A tree of groups that is mounted: `group` of the tree is what shows at `folder`. `resources` has version 1's
// resources of the tree; none in version 2, whose tree is of all.
struct Tree {
  std::vector<std::string> resources;
  std::string group, folder;

  bool has(absl::string_view resource) const {
    return resources.empty() || std::find(resources.begin(), resources.end(), resource) != resources.end();
  }
};

// Of /proc/self/mountinfo (proc_pid_mountinfo(5)).
std::vector<Tree> MountedTrees(const std::string& root) {
  std::vector<Tree> trees;
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(" - ", 1));
    if (parts.size() != 2) continue;
    const std::vector<std::string> where = absl::StrSplit(parts[0], ' '), what = absl::StrSplit(parts[1], ' ');
    if (where.size() < 5 || what.size() < 3) continue;
    if (what[0] == "cgroup2") trees.push_back({{}, where[3], where[4]});
    if (what[0] == "cgroup") trees.push_back({absl::StrSplit(what[2], ','), where[3], where[4]});
  }
  return trees;
}

// The group of this process in a tree, of /proc/self/cgroup (cgroups(7)).
std::optional<std::string> OwnGroup(const std::string& root, const Tree& tree) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    const std::vector<std::string> resources = absl::StrSplit(parts[1], ',', absl::SkipEmpty());
    const bool same = resources.empty() ? tree.resources.empty() : !tree.resources.empty() && tree.has(resources[0]);
    if (same) return parts[2];
  }
  return std::nullopt;
}

std::optional<std::string> FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) ? std::optional(line) : std::nullopt;
}

// Of a file with a number; none if it says "max", or -1.
std::optional<uint64_t> NumberIn(const std::string& path) {
  const std::optional<std::string> line = FirstLine(path);
  uint64_t number = 0;
  return line.has_value() && absl::SimpleAtoi(*line, &number) ? std::optional(number) : std::nullopt;
}

void Limit(std::optional<uint64_t> quota, std::optional<uint64_t> period, GroupLimits& limits) {
  if (!quota.has_value() || !period.has_value() || *quota == 0 || *period == 0) return;
  limits.cpus = std::min(limits.cpus, static_cast<double>(*quota) / static_cast<double>(*period));
}

// What the group of this folder says itself.
void LimitByFolder(const Tree& tree, const std::string& folder, GroupLimits& limits) {
  if (tree.resources.empty()) {
    if (const auto bytes = NumberIn(folder + "/memory.max"))
      limits.memory_bytes = std::min(limits.memory_bytes, *bytes);
    const std::vector<std::string> words = absl::StrSplit(FirstLine(folder + "/cpu.max").value_or(""), ' ');
    uint64_t quota = 0, period = 0;
    if (words.size() == 2 && absl::SimpleAtoi(words[0], &quota) && absl::SimpleAtoi(words[1], &period))
      Limit(quota, period, limits);
    return;
  }
  if (tree.has("memory")) {
    if (const auto bytes = NumberIn(folder + "/memory.limit_in_bytes"))
      limits.memory_bytes = std::min(limits.memory_bytes, *bytes);
  }
  if (tree.has("cpu")) Limit(NumberIn(folder + "/cpu.cfs_quota_us"), NumberIn(folder + "/cpu.cfs_period_us"), limits);
}

}  // namespace

GroupLimits ReadGroupLimits(const std::string& root) {
  GroupLimits limits;
  for (const Tree& tree : MountedTrees(root)) {
    const std::optional<std::string> group = OwnGroup(root, tree);
    if (!group.has_value()) continue;
    // Below what is mounted. In a container the group may be named as the host does, and be the mount itself.
    absl::string_view inside = *group;
    if (tree.group != "/" && !absl::ConsumePrefix(&inside, tree.group)) inside = "";
    if (!absl::StartsWith(inside, "/") || absl::StrContains(inside, "/..")) inside = "";
    absl::ConsumeSuffix(&inside, "/");
    for (;;) {
      LimitByFolder(tree, absl::StrCat(root, tree.folder, inside), limits);
      if (inside.empty()) break;
      inside = inside.substr(0, inside.rfind('/'));
    }
  }
  return limits;
}

}  // namespace kiln::runtime::cpu
