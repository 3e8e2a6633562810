// Tested by tests/e2e/serving/regions_test.py.
#include "server/services/inference/region_owner.h"

#include <unistd.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/identity/unix_user.h"
#include "server/port/local_peer.h"
#include "server/port/unix_users.h"

namespace kiln::server {
namespace {

bool IsOfLoopback(const HttpPeers* http_peers, const grpc::CallbackServerContext& context) {
  const auto said = context.client_metadata().find(HttpPeers::kMetadata);
  if (said == context.client_metadata().end()) return IsLoopbackPeer(context.peer());
  const auto address =
      http_peers == nullptr ? std::nullopt : http_peers->AddressOf({said->second.data(), said->second.size()});
  return address.has_value() && IsLoopbackAddress(*address);
}

std::optional<uint32_t> UserOf(const ServiceEnv& env, const grpc::CallbackServerContext& context,
                               const TenantPtr& tenant) {
  const auto connection = context.auth_context();
  if (connection != nullptr) {
    if (const auto user = UnixUsers::UserOf(*connection); user.has_value()) return user;
  }
  if (env.named_regions->loopback() && tenant == nullptr && IsOfLoopback(env.http_peers, context)) return geteuid();
  return std::nullopt;
}

}  // namespace

absl::StatusOr<RegionOwner> OwnerOf(const ServiceEnv& env, const grpc::CallbackServerContext& context,
                                    const TenantPtr& tenant) {
  const auto user = UserOf(env, context, tenant);
  if (user.has_value() && IsOneUser(*user)) return RegionOwner{tenant == nullptr ? "" : tenant->name, *user};
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_ALLOWED);
  detail.set_field("shared_memory");
  return MakeError(
      std::move(detail),
      absl::StrCat("shared memory by name is for callers whose user the system tells: call by the server's "
                   "Unix socket",
                   tenant == nullptr ? "" : ", as a user whom the file of tenants names"));
}

absl::Status NoNamedRegions(absl::string_view what) {
  v1::ErrorDetail detail;
  detail.set_code(v1::NOT_IMPLEMENTED);
  detail.set_field(std::string(what));
  return MakeError(std::move(detail), absl::StrCat(what,
                                                   ": this server takes no shared memory by name; its owner can "
                                                   "let it, with --shared_memory_named_max_bytes"));
}

}  // namespace kiln::server
