// Who asks, once it is known.
#ifndef KILN_SERVER_IDENTITY_TENANT_H_
#define KILN_SERVER_IDENTITY_TENANT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/account.h"

namespace kiln::server {

// What a caller must be allowed to do for an RPC to be served (the rows of server/services/rpcs.h).
enum class Right : unsigned char {
  kExecute,  // compile, run, and keep data on devices
  kDebug,    // see how its own programs are compiled, and search schedules for them
  kAdmin,    // what concerns everybody's
  kKnown,    // be told of itself: every tenant's
};

// Whose compiled code it gets (kiln.v1.CacheSharing).
enum class CacheSharing : unsigned char { kNone, kHidden, kGroup, kAll };

// Never changes: a file that is read again makes new ones.
struct Tenant {
  std::string name;
  bool rights[3] = {};  // by Right, but for kKnown
  QuotaLimits quota = {};
  // Its programs run in a process of their own.
  bool apart = false;
  // Patterns of names of devices; none: all.
  std::vector<std::string> devices;
  // Patterns of names of served models; none: all.
  std::vector<std::string> models;
  // Of each of the devices.
  uint64_t guaranteed_device_bytes = 0;
  CacheSharing cache_sharing = CacheSharing::kNone;
  std::string sharing_group;  // empty: alone
  uint32_t weight = 1;
  bool interactive = false;

  bool Has(Right right) const { return right == Right::kKnown || rights[static_cast<int>(right)]; }
  bool MayAsk(absl::string_view model) const;
};
using TenantPtr = std::shared_ptr<const Tenant>;

// "execute", …
absl::string_view RightName(Right right);

// Whether `text` is `pattern` or, if that ends in '*', begins as it does.
bool Matches(absl::string_view pattern, absl::string_view text);

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_TENANT_H_
