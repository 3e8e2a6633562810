// SessionService: owners of handles, by lease; and what a tenant has.
#include <map>
#include <string>

#include "kiln/v1/session_service.pb.h"
#include "server/services/rpcs.h"

namespace kiln::server {
namespace {

void FillUse(Engine& engine, const std::string& tenant, const Account& account, v1::UsageResponse::TenantUse& message) {
  message.set_name(tenant);
  for (size_t i = 0; i < kQuotas; ++i) {
    const auto quota = static_cast<Quota>(i);
    v1::UsageResponse::QuotaUse& use = *message.add_quotas();
    use.set_name(std::string(QuotaName(quota)));
    use.set_limit(account.limit(quota));
    use.set_used(account.used(quota));
    use.set_window_seconds(static_cast<uint32_t>(absl::ToInt64Seconds(QuotaWindow(quota))));
  }
  const TenantRules& rules = engine.rules().Of(tenant)->get();
  for (const auto& device : engine.devices(&rules)) {
    if (!rules.MayUse(device->name())) continue;
    const runtime::hal::Guarantees::Part part = device->allocator().guarantees().Of(&account);
    v1::UsageResponse::DeviceUse& use = *message.add_devices();
    use.set_name(std::string(device->name()));
    use.set_guaranteed_bytes(part.guaranteed);
    use.set_used_bytes(part.used);
  }
}

}  // namespace

void rpc::SessionService::Open(UnaryCall<v1::OpenSessionRequest, v1::OpenSessionResponse>& call) {
  const auto opened = call.env().engine.sessions().Open(call.request().resume_token(), call.request().lease_seconds(),
                                                        call.context().peer(), call.tenant_name());
  if (!opened.ok()) return call.Reply(opened.status());
  call.response().set_token(opened->token);
  call.response().set_lease_seconds(opened->lease_seconds);
  call.response().set_resumed(opened->resumed);
  call.Reply(absl::OkStatus());
}

void rpc::SessionService::Renew(UnaryCall<v1::RenewSessionRequest, v1::RenewSessionResponse>& call) {
  const auto lease_seconds = call.env().engine.sessions().Renew(call.request().token(), call.tenant_name());
  if (!lease_seconds.ok()) return call.Reply(lease_seconds.status());
  call.response().set_lease_seconds(*lease_seconds);
  call.Reply(absl::OkStatus());
}

void rpc::SessionService::Usage(UnaryCall<v1::UsageRequest, v1::UsageResponse>& call) {
  const TenantPtr& tenant = call.tenant();
  if (tenant == nullptr) return call.Reply(absl::OkStatus());
  Engine& engine = call.env().engine;
  if (!call.request().all_tenants()) {
    FillUse(engine, tenant->name, *engine.accounts().Of(tenant->name), *call.response().add_tenants());
    return call.Reply(absl::OkStatus());
  }
  if (!tenant->Has(Right::kAdmin)) return call.Reply(WithoutRight(*tenant, Right::kAdmin));
  for (const auto& [name, account] : engine.accounts().All())
    FillUse(engine, name, *account, *call.response().add_tenants());
  call.Reply(absl::OkStatus());
}

void rpc::SessionService::Close(UnaryCall<v1::CloseSessionRequest, v1::CloseSessionResponse>& call) {
  SessionTable& sessions = call.env().engine.sessions();
  if (call.request().id().empty()) return call.Reply(sessions.Close(call.request().token(), call.tenant_name()));
  if (call.tenant() != nullptr && !call.tenant()->Has(Right::kAdmin))
    return call.Reply(WithoutRight(*call.tenant(), Right::kAdmin));
  call.Reply(sessions.CloseById(call.request().id()));
}

}  // namespace kiln::server
