// KernelService.Submit: a stream of commands and the connection it comes by.
#ifndef KILN_SERVER_SERVICES_SUBMIT_H_
#define KILN_SERVER_SERVICES_SUBMIT_H_

#include <grpcpp/grpcpp.h>

#include "server/services/env.h"

namespace kiln::server {

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* StartSubmit(const ServiceEnv& env,
                                                                         const grpc::CallbackServerContext& context);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_SUBMIT_H_
