// RPCs that the protocol has and this server does not serve yet.
//
// A service lists them, one row each, by the kind of call. Each answers
// UNIMPLEMENTED with NOT_IMPLEMENTED and its own name in the detail's `field`.
#ifndef KILN_SERVER_SERVICES_UNIMPLEMENTED_H_
#define KILN_SERVER_SERVICES_UNIMPLEMENTED_H_

#include <grpcpp/grpcpp.h>

#include "absl/strings/string_view.h"
#include "server/messages/not_implemented.h"
#include "server/messages/status.h"

namespace kiln::server {

// A call of any kind that ends as it begins.
template <typename Reactor>
class RefusingReactor final : public Reactor {
 public:
  explicit RefusingReactor(absl::string_view rpc) { this->Finish(ToGrpc(NotImplemented(rpc))); }
  void OnDone() override { delete this; }
};

}  // namespace kiln::server

#define KILN_UNIMPLEMENTED_UNARY(Service, Rpc, Request, Response)                                   \
  grpc::ServerUnaryReactor* Rpc(grpc::CallbackServerContext*, const Request*, Response*) override { \
    return new RefusingReactor<grpc::ServerUnaryReactor>(#Service "." #Rpc);                        \
  }
#define KILN_UNIMPLEMENTED_CLIENT_STREAM(Service, Rpc, Request, Response)                   \
  grpc::ServerReadReactor<Request>* Rpc(grpc::CallbackServerContext*, Response*) override { \
    return new RefusingReactor<grpc::ServerReadReactor<Request>>(#Service "." #Rpc);        \
  }
#define KILN_UNIMPLEMENTED_SERVER_STREAM(Service, Rpc, Request, Response)                          \
  grpc::ServerWriteReactor<Response>* Rpc(grpc::CallbackServerContext*, const Request*) override { \
    return new RefusingReactor<grpc::ServerWriteReactor<Response>>(#Service "." #Rpc);             \
  }

#endif  // KILN_SERVER_SERVICES_UNIMPLEMENTED_H_
