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

bool IsOfLoopback(const grpc::CallbackServerContext& context) {
  const std::string peer = context.peer();
  if (peer != kInProcessPeer) return IsLoopbackPeer(peer);
  const auto client = context.client_metadata().find(kHttpPeer);
  return client != context.client_metadata().end() && IsLoopbackAddress({client->second.data(), client->second.size()});
}

std::optional<uint32_t> UserOf(const NamedRegions& regions, const grpc::CallbackServerContext& context,
                               const TenantPtr& tenant) {
  const auto connection = context.auth_context();
  if (connection != nullptr) {
    if (const auto user = UnixUsers::UserOf(*connection); user.has_value()) return user;
  }
  if (regions.loopback() && tenant == nullptr && IsOfLoopback(context)) return geteuid();
  return std::nullopt;
}

}  // namespace

absl::StatusOr<RegionOwner> OwnerOf(const NamedRegions& regions, const grpc::CallbackServerContext& context,
                                    const TenantPtr& tenant) {
  const auto user = UserOf(regions, context, tenant);
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
