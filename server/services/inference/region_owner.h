// Whose shared memory a call may name: that of the user of this machine who makes it, as the system says.
#ifndef KILN_SERVER_SERVICES_INFERENCE_REGION_OWNER_H_
#define KILN_SERVER_SERVICES_INFERENCE_REGION_OWNER_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/identity/tenant.h"
#include "server/services/env.h"
#include "server/shared_memory/named_regions.h"

namespace kiln::server {

// NOT_ALLOWED for a caller whose user nothing tells: of another machine; of loopback, unless the server's owner has
// said that those may have what the server's own user owns; or who is one of too many at the Unix socket.
// `env` has named_regions.
absl::StatusOr<RegionOwner> OwnerOf(const ServiceEnv& env, const grpc::CallbackServerContext& context,
                                    const TenantPtr& tenant);

// NOT_IMPLEMENTED of `what`, on a server that takes no shared memory by name.
absl::Status NoNamedRegions(absl::string_view what);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_INFERENCE_REGION_OWNER_H_
