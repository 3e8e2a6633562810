// Sessions: who owns handles, and for how long. Not served yet: every handle
// belongs to everyone who knows it.
#ifndef KILN_SERVER_SERVICES_SESSION_SERVICE_H_
#define KILN_SERVER_SERVICES_SESSION_SERVICE_H_

#include "kiln/v1/session_service.grpc.pb.h"
#include "server/services/unimplemented.h"

namespace kiln::server {

class SessionServiceImpl final : public v1::SessionService::CallbackService {
  KILN_UNIMPLEMENTED_UNARY(SessionService, Open, v1::OpenSessionRequest, v1::OpenSessionResponse)
  KILN_UNIMPLEMENTED_UNARY(SessionService, Renew, v1::RenewSessionRequest, v1::RenewSessionResponse)
  KILN_UNIMPLEMENTED_UNARY(SessionService, Close, v1::CloseSessionRequest, v1::CloseSessionResponse)
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_SESSION_SERVICE_H_
