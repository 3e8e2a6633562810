// Which versions of each model of a folder are served.
#ifndef KILN_SERVER_MODELS_VERSION_POLICY_H_
#define KILN_SERVER_MODELS_VERSION_POLICY_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

// Of one model.
struct VersionChoice {
  uint64_t newest = 1;        // so many of the greatest; 0: all
  std::set<uint64_t> pinned;  // where there are any, these alone

  // Of versions in ascending order, those that are to be served.
  std::vector<uint64_t> Of(const std::vector<uint64_t>& versions) const;
  bool operator==(const VersionChoice&) const = default;
};

struct VersionPolicy {
  VersionChoice others;
  std::map<std::string, VersionChoice, std::less<>> named;

  const VersionChoice& For(absl::string_view model) const;
};

// "latest:2,bert=3+7,ranker=all": a choice for each model named, and one for the others. A choice is "latest", the
// greatest number; "latest:N", the N greatest; "all"; or numbers with '+' between them. INVALID_ARGUMENT names the
// part at fault.
absl::StatusOr<VersionPolicy> ParseVersionPolicy(absl::string_view text);

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_VERSION_POLICY_H_
