// SessionService: owners of handles, by lease.
#include "server/services/rpcs.h"

namespace kiln::server {

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

void rpc::SessionService::Close(UnaryCall<v1::CloseSessionRequest, v1::CloseSessionResponse>& call) {
  call.Reply(call.env().engine.sessions().Close(call.request().token(), call.tenant_name()));
}

}  // namespace kiln::server
