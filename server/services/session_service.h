// SessionService: which sessions own handles, and for how long.
//
// A call whose metadata has kSessionHeader, with the token that Open gave, is made
// under that session: the buffers it makes are known to the session alone, and end
// with it. Without the header they have no owner and stay until they are freed.
#ifndef KILN_SERVER_SERVICES_SESSION_SERVICE_H_
#define KILN_SERVER_SERVICES_SESSION_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "kiln/v1/session_service.grpc.pb.h"
#include "server/services/env.h"

namespace kiln::server {

using SessionServiceBase =
    v1::SessionService::WithRawCallbackMethod_Open<v1::SessionService::WithRawCallbackMethod_Renew<
        v1::SessionService::WithRawCallbackMethod_Close<v1::SessionService::Service>>>;

class SessionServiceImpl final : public SessionServiceBase {
 public:
  explicit SessionServiceImpl(const ServiceEnv& env) : env_(env) {}

  grpc::ServerUnaryReactor* Open(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Renew(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Close(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                  grpc::ByteBuffer* response) override;

 private:
  const ServiceEnv env_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_SESSION_SERVICE_H_
