// The secret of which tenants' trust domains are made (server/engine/memory/trust_domain.h).
#ifndef KILN_SERVER_IDENTITY_DOMAIN_SECRET_H_
#define KILN_SERVER_IDENTITY_DOMAIN_SECRET_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace kiln::server {

// 32 bytes that cannot be guessed: of this process; or, where programs are kept in `folder`, of
// all servers that keep them there, in the file "domain_secret" that the first of them makes.
// Only the servers' user may read it. UNAVAILABLE if it cannot be read or made.
absl::StatusOr<std::string> DomainSecret(absl::string_view folder);

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_DOMAIN_SECRET_H_
