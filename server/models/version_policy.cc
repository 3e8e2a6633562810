#include "server/models/version_policy.h"

#include <optional>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/models/folder.h"

namespace kiln::server {
namespace {

// More than a folder has.
constexpr uint64_t kMaxNewest = 65536;

std::optional<VersionChoice> ParseChoice(absl::string_view text) {
  if (text == "all") return VersionChoice{0, {}};
  if (text == "latest") return VersionChoice{};
  VersionChoice choice;
  if (absl::ConsumePrefix(&text, "latest:")) {
    choice.newest = ModelVersion(text);
    return choice.newest == 0 || choice.newest > kMaxNewest ? std::nullopt : std::optional(choice);
  }
  for (const absl::string_view number : absl::StrSplit(text, '+')) {
    const uint64_t version = ModelVersion(number);
    if (version == 0) return std::nullopt;
    choice.pinned.insert(version);
  }
  return choice;
}

}  // namespace

std::vector<uint64_t> VersionChoice::Of(const std::vector<uint64_t>& versions) const {
  std::vector<uint64_t> chosen;
  for (size_t i = 0; i < versions.size(); ++i) {
    const bool is_new = newest == 0 || versions.size() - i <= newest;
    if (pinned.empty() ? is_new : pinned.contains(versions[i])) chosen.push_back(versions[i]);
  }
  return chosen;
}

const VersionChoice& VersionPolicy::For(absl::string_view model) const {
  const auto found = named.find(model);
  return found == named.end() ? others : found->second;
}

absl::StatusOr<VersionPolicy> ParseVersionPolicy(absl::string_view text) {
  VersionPolicy policy;
  bool has_others = false;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t equals = part.find('=');
    const bool of_one = equals != absl::string_view::npos;
    const absl::string_view name = of_one ? part.substr(0, equals) : absl::string_view();
    const std::optional<VersionChoice> choice = ParseChoice(of_one ? part.substr(equals + 1) : part);
    const auto bad = [&](absl::string_view why) {
      return absl::InvalidArgumentError(absl::StrCat("\"", part, "\": ", why));
    };
    if (of_one && !IsModelName(name)) return bad("before = stands the name of a model");
    if (!choice.has_value()) return bad("a choice is latest, latest:2, all, or versions such as 3+7");
    if (of_one ? !policy.named.emplace(name, *choice).second : has_others) return bad("it has a choice already");
    if (of_one) continue;
    policy.others = *choice;
    has_others = true;
  }
  return policy;
}

}  // namespace kiln::server
