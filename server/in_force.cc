// Tested by tests/e2e/tenants/gone_test.cc and revoked_test.cc.
#include "server/in_force.h"

#include <vector>

#include "absl/time/clock.h"
#include "server/engine/engine.h"
#include "server/logs/logs.h"
#include "server/models/repository.h"
#include "server/services/requests/open_calls.h"
#include "server/shared_memory/listener.h"
#include "server/shared_memory/named_regions.h"

namespace kiln::server {

Identity::Hooks HooksOf(const InForce& server) {
  Identity::Hooks hooks;
  hooks.apply = [server](const std::vector<TenantPtr>& tenants) { return server.engine->SetTenants(tenants); };
  hooks.in_force = [server](const Identity::NameSet& stayed, const Identity::NameSet& gone) {
    server.open_calls->LookAtAll();
    if (server.named_regions != nullptr) server.named_regions->KeepOnly(stayed);
    if (server.models != nullptr) server.models->KeepOnly(stayed);
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
