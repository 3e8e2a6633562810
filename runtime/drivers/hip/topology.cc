#include "runtime/drivers/hip/topology.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace kiln::runtime::hip {
namespace {

constexpr int kMaxNodes = 1024, kMaxCaches = 4096;

// Lines of a name and a number; nothing if there is no such file.
std::map<std::string, uint64_t> ReadProperties(const std::string& path) {
  std::map<std::string, uint64_t> properties;
  std::ifstream file(path);
  std::string name;
  for (uint64_t value; file >> name >> value;) properties[name] = value;
  return properties;
}

// The largest of the node's caches of that level.
uint64_t CacheBytes(const std::string& node, uint64_t level) {
  uint64_t max_found = 0;
  for (int i = 0; i < kMaxCaches; ++i) {
    auto cache = ReadProperties(absl::StrCat(node, "/caches/", i, "/properties"));
    if (cache.empty()) break;
    if (cache["level"] == level) max_found = std::max(max_found, cache["size"] << 10);  // the file has KiB
  }
  return max_found;
}

}  // namespace

std::string ArchName(uint32_t gfx_target_version) {
  return absl::StrFormat("gfx%d%x%x", gfx_target_version / 10000, gfx_target_version / 100 % 100,
                         gfx_target_version % 100);
}

std::optional<Node> FindNode(const std::string& nodes, const std::string& place) {
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(place.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) return std::nullopt;
  const uint64_t location = bus << 8 | slot << 3 | function;
  for (int i = 0; i < kMaxNodes; ++i) {
    const std::string folder = absl::StrCat(nodes, "/", i);
    auto properties = ReadProperties(folder + "/properties");
    if (properties.empty()) break;
    const uint64_t version = properties["gfx_target_version"];  // 0 of CPUs
    if (version == 0 || properties["location_id"] != location || properties["domain"] != domain) continue;
    Node node;
    node.arch = ArchName(static_cast<uint32_t>(version));
    node.cores = static_cast<uint32_t>(properties["simd_count"] / std::max<uint64_t>(1, properties["simd_per_cu"]));
    node.lanes = static_cast<uint32_t>(properties["wave_front_size"]);
    node.shared_bytes = properties["lds_size_in_kb"] << 10;
    node.l2_bytes = CacheBytes(folder, 2);
    return node;
  }
  return std::nullopt;
}

}  // namespace kiln::runtime::hip
