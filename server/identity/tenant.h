// Who asks, once it is known.
#ifndef KILN_SERVER_IDENTITY_TENANT_H_
#define KILN_SERVER_IDENTITY_TENANT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "base/account.h"

namespace kiln::server {

// What a caller must be allowed to do for an RPC to be served (the rows of server/services/rpcs.h).
enum class Right : unsigned char {
  kExecute,  // compile, run, and keep data on devices
  kDebug,    // see how its own programs are compiled, and search schedules for them
  kAdmin,    // what concerns everybody's
};

// Never changes: a file that is read again makes new ones.
struct Tenant {
  std::string name;
  bool rights[3] = {};  // by Right
  QuotaLimits quota = {};
  uint32_t weight = 1;
  bool interactive = false;

  bool Has(Right right) const { return rights[static_cast<int>(right)]; }
};
using TenantPtr = std::shared_ptr<const Tenant>;

// "execute", …
absl::string_view RightName(Right right);

// Whether `text` is `pattern` or, if that ends in '*', begins as it does.
bool Matches(absl::string_view pattern, absl::string_view text);

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_TENANT_H_
