// Tested by tests/e2e/tenants/gone_test.cc, revoked_test.cc and shares_test.cc.
#include "server/in_force.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/error.h"
#include "server/engine/engine.h"
#include "server/logs/logs.h"
#include "server/models/repository.h"
#include "server/services/device_watch.h"
#include "server/services/requests/open_calls.h"
#include "server/shared_memory/listener.h"
#include "server/shared_memory/named_regions.h"
#include "server/shared_memory/regions.h"

namespace kiln::server {

namespace {

// A tenant has one of so many; but where there are few in all, so many of them.
constexpr uint64_t kSharesOfAll = 4, kFewOfAll = 16;

// With the shares of a server in place of quotas that its file leaves out.
std::vector<TenantPtr> WithShares(const std::vector<TenantPtr>& tenants, const QuotaLimits& shares) {
  std::vector<TenantPtr> limited;
  for (const TenantPtr& tenant : tenants) {
    auto copy = std::make_shared<Tenant>(*tenant);
    for (size_t i = 0; i < shares.size(); ++i) {
      if (copy->quota[i] == 0) copy->quota[i] = shares[i];
    }
    limited.push_back(std::move(copy));
  }
  return limited;
}

}  // namespace

QuotaLimits SharesOf(const v1::ServerConfig& config) {
  QuotaLimits shares = {};
  const auto set = [&shares](Quota quota, uint64_t all) {
    shares[static_cast<size_t>(quota)] = std::min(all, std::max(all / kSharesOfAll, kFewOfAll));
  };
  set(Quota::kSessions, config.session_limits().max_sessions());
  set(Quota::kHandles, config.max_handles());
  set(Quota::kWatchers, kMaxWatchers);
  set(Quota::kRegions, kMaxRegions);
  return shares;
}

Identity::Hooks HooksOf(const InForce& server) {
  Identity::Hooks hooks;
  const auto keep_only = [server](const Identity::NameSet& names) {
    if (server.named_regions != nullptr) server.named_regions->KeepOnly(names);
    if (server.models != nullptr) server.models->KeepOnly(names);
  };
  hooks.apply = [server, keep_only](const std::vector<TenantPtr>& tenants, const Identity::NameSet& stayed) {
    KILN_RETURN_IF_ERROR(server.engine->SetTenants(WithShares(tenants, server.shares)));
    keep_only(stayed);
    return absl::OkStatus();
  };
  hooks.in_force = [server, keep_only](const Identity::NameSet& now, const Identity::NameSet& gone) {
    server.open_calls->LookAtAll();
    keep_only(now);  // what calls of who is gone have made in between
    if (server.shared_memory != nullptr) server.shared_memory->regions().Forget(gone);
    server.engine->Forget(gone);
  };
  hooks.reloaded = [server](const absl::Status& status) {
    if (server.logs->audit != nullptr) server.logs->audit->TenantsRead(status, absl::Now());
  };
  hooks.unanswered = [server](size_t issuers) { server.engine->metrics().issuers_unanswered.Add(issuers); };
  return hooks;
}

}  // namespace kiln::server
