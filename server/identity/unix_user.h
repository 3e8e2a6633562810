// Users of this machine, as the file of tenants names them.
#ifndef KILN_SERVER_IDENTITY_UNIX_USER_H_
#define KILN_SERVER_IDENTITY_UNIX_USER_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace kiln::server {

// The number of a user, by number or by name. INVALID_ARGUMENT for one that this machine does
// not have, and for the number under which the kernel shows all that it has no number for.
absl::StatusOr<uint32_t> ParseUnixUser(const std::string& user);

// Whether it is neither that number nor none.
bool IsOneUser(uint32_t user);

}  // namespace kiln::server

#endif  // KILN_SERVER_IDENTITY_UNIX_USER_H_
