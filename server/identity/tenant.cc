#include "server/identity/tenant.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace kiln::server {

absl::string_view RightName(Right right) {
  switch (right) {
    case Right::kExecute: return "execute";
    case Right::kDebug: return "debug";
    case Right::kAdmin: return "admin";
    case Right::kKnown: return "known";
  }
  return "";
}

bool Matches(absl::string_view pattern, absl::string_view text) {
  if (absl::ConsumeSuffix(&pattern, "*")) return absl::StartsWith(text, pattern);
  return pattern == text;
}

bool Tenant::MayAsk(absl::string_view model) const {
  return models.empty() ||
         std::any_of(models.begin(), models.end(), [&](const std::string& pattern) { return Matches(pattern, model); });
}

}  // namespace kiln::server
