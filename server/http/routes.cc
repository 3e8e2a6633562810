#include "server/http/routes.h"

#include <optional>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace kiln::server {
namespace {

constexpr Route kRoutes[] = {
    {"GET", "/v2", Rpc::kServerMetadata, false},
    {"GET", "/v2/health/live", Rpc::kServerLive, false},
    {"GET", "/v2/health/ready", Rpc::kServerReady, false},
    {"GET", "/v2/models/stats", Rpc::kModelStatistics, false},
    {"GET", "/v2/models/{model}", Rpc::kModelMetadata, false},
    {"GET", "/v2/models/{model}/ready", Rpc::kModelReady, false},
    {"GET", "/v2/models/{model}/config", Rpc::kModelConfig, false},
    {"GET", "/v2/models/{model}/stats", Rpc::kModelStatistics, false},
    {"POST", "/v2/models/{model}/infer", Rpc::kModelInfer, true},
    {"GET", "/v2/models/{model}/versions/{version}", Rpc::kModelMetadata, false},
    {"GET", "/v2/models/{model}/versions/{version}/ready", Rpc::kModelReady, false},
    {"GET", "/v2/models/{model}/versions/{version}/config", Rpc::kModelConfig, false},
    {"GET", "/v2/models/{model}/versions/{version}/stats", Rpc::kModelStatistics, false},
    {"POST", "/v2/models/{model}/versions/{version}/infer", Rpc::kModelInfer, true},
    {"POST", "/v2/repository/index", Rpc::kRepositoryIndex, false},
    {"POST", "/v2/repository/models/{model}/load", Rpc::kRepositoryModelLoad, false},
    {"POST", "/v2/repository/models/{model}/unload", Rpc::kRepositoryModelUnload, false},
    {"GET", "/v2/systemsharedmemory/status", Rpc::kSystemSharedMemoryStatus, false},
    {"GET", "/v2/systemsharedmemory/region/{region}/status", Rpc::kSystemSharedMemoryStatus, false},
    {"POST", "/v2/systemsharedmemory/region/{region}/register", Rpc::kSystemSharedMemoryRegister, true},
    {"POST", "/v2/systemsharedmemory/unregister", Rpc::kSystemSharedMemoryUnregister, false},
    {"POST", "/v2/systemsharedmemory/region/{region}/unregister", Rpc::kSystemSharedMemoryUnregister, false},
    {"GET", "/v2/cudasharedmemory/status", Rpc::kCudaSharedMemoryStatus, false},
    {"GET", "/v2/cudasharedmemory/region/{region}/status", Rpc::kCudaSharedMemoryStatus, false},
    {"POST", "/v2/cudasharedmemory/region/{region}/register", Rpc::kCudaSharedMemoryRegister, true},
    {"POST", "/v2/cudasharedmemory/unregister", Rpc::kCudaSharedMemoryUnregister, false},
    {"POST", "/v2/cudasharedmemory/region/{region}/unregister", Rpc::kCudaSharedMemoryUnregister, false},
    {"GET", "/v2/trace/setting", Rpc::kTraceSetting, false},
    {"POST", "/v2/trace/setting", Rpc::kTraceSetting, true},
    {"GET", "/v2/models/{model}/trace/setting", Rpc::kTraceSetting, false},
    {"POST", "/v2/models/{model}/trace/setting", Rpc::kTraceSetting, true},
    {"GET", "/v2/logging", Rpc::kLogSettings, false},
    {"POST", "/v2/logging", Rpc::kLogSettings, true},
};

// Without escapes; none if one of them is broken.
std::optional<std::string> Decoded(absl::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    if (text[0] != '%') {
      decoded += text[0];
      text.remove_prefix(1);
      continue;
    }
    if (text.size() < 3 || !absl::ascii_isxdigit(text[1]) || !absl::ascii_isxdigit(text[2])) return std::nullopt;
    decoded += absl::HexStringToBytes(text.substr(1, 2));
    text.remove_prefix(3);
  }
  return decoded;
}

using Segments = std::vector<absl::string_view>;

std::optional<Routed> Match(const Route& route, const Segments& path) {
  const Segments pattern = absl::StrSplit(route.path, '/');
  if (pattern.size() != path.size()) return std::nullopt;
  Routed routed{&route, {}, {}, {}};
  for (size_t i = 0; i < path.size(); ++i) {
    std::string* const name = pattern[i] == "{model}"     ? &routed.model
                              : pattern[i] == "{version}" ? &routed.version
                              : pattern[i] == "{region}"  ? &routed.region
                                                          : nullptr;
    if (name == nullptr) {
      if (pattern[i] != path[i]) return std::nullopt;
      continue;
    }
    auto decoded = Decoded(path[i]);
    // No model has another name, and no region.
    if (!decoded.has_value() || decoded->empty() || !absl::c_all_of(*decoded, absl::ascii_isgraph)) return std::nullopt;
    *name = *std::move(decoded);
  }
  return routed;
}

}  // namespace

absl::Span<const Route> Routes() { return kRoutes; }

std::variant<Routed, HttpAnswer> FindRoute(absl::string_view method, absl::string_view target) {
  const absl::string_view path = absl::StripSuffix(target.substr(0, target.find('?')), "/");
  const Segments segments = absl::StrSplit(path, '/');
  std::set<absl::string_view> others;
  // "/v2/models/stats" is no model's: the first that matches counts.
  for (const Route& route : kRoutes) {
    auto routed = Match(route, segments);
    if (!routed.has_value()) continue;
    if (route.method == method) return *std::move(routed);
    others.insert(route.method);
  }
  if (!others.empty()) {
    HttpAnswer answer = ErrorAnswer(405, absl::StrCat("this path takes ", absl::StrJoin(others, " or "), " alone"));
    answer.allow = absl::StrJoin(others, ", ");
    return answer;
  }
  return ErrorAnswer(404, "there is no such path; docs/serving.md lists those that there are");
}

}  // namespace kiln::server
