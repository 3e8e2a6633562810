#include "server/identity/unix_user.h"

#include <pwd.h>

#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace kiln::server {
namespace {

// Of a user in another container, say (/proc/sys/kernel/overflowuid). The other is no user's.
constexpr uint32_t kUnmapped = 65534, kNone = UINT32_MAX;
// Enough for any entry; a machine's own limit may be less, or unknown.
constexpr size_t kMaxEntry = 64 << 10;

}  // namespace

absl::StatusOr<uint32_t> ParseUnixUser(const std::string& user) {
  uint32_t number = 0;
  if (!absl::SimpleAtoi(user, &number)) {
    std::vector<char> text(kMaxEntry);
    passwd entry = {}, *found = nullptr;
    if (getpwnam_r(user.c_str(), &entry, text.data(), text.size(), &found) != 0 || found == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("unix_user: \"", absl::CEscape(user),
                                                     "\" is neither a user of this machine nor a user's number"));
    }
    number = found->pw_uid;
  }
  if (!IsOneUser(number)) {
    return absl::InvalidArgumentError(absl::StrCat("unix_user: ", number, " is no one user's"));
  }
  return number;
}

bool IsOneUser(uint32_t user) { return user != kUnmapped && user != kNone; }

}  // namespace kiln::server
