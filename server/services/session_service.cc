#include "server/services/session_service.h"

#include "server/services/call.h"

namespace kiln::server {

grpc::ServerUnaryReactor* SessionServiceImpl::Open(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::OpenSessionRequest, v1::OpenSessionResponse>(
      env_, context, request, response, [this, context](auto& call) {
        const auto opened =
            env_.engine.sessions().Open(call.request().resume_token(), call.request().lease_seconds(), context->peer());
        if (!opened.ok()) return call.Reply(opened.status());
        call.response().set_token(opened->token);
        call.response().set_lease_seconds(opened->lease_seconds);
        call.response().set_resumed(opened->resumed);
        call.Reply(absl::OkStatus());
      });
}

grpc::ServerUnaryReactor* SessionServiceImpl::Renew(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::RenewSessionRequest, v1::RenewSessionResponse>(env_, context, request, response, [this](auto& call) {
    const auto lease_seconds = env_.engine.sessions().Renew(call.request().token());
    if (!lease_seconds.ok()) return call.Reply(lease_seconds.status());
    call.response().set_lease_seconds(*lease_seconds);
    call.Reply(absl::OkStatus());
  });
}

grpc::ServerUnaryReactor* SessionServiceImpl::Close(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::CloseSessionRequest, v1::CloseSessionResponse>(env_, context, request, response, [this](auto& call) {
    call.Reply(env_.engine.sessions().Close(call.request().token()));
  });
}

}  // namespace kiln::server
