// DebugService.Tune: what a search tries, as it tries it.
#ifndef KILN_SERVER_SERVICES_TUNE_STREAM_H_
#define KILN_SERVER_SERVICES_TUNE_STREAM_H_

#include <grpcpp/grpcpp.h>

#include "server/services/env.h"

namespace kiln::server {

// The call ends itself.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartTune(const ServiceEnv& env, const grpc::CallbackServerContext& context,
                                                      const grpc::ByteBuffer& request);

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_TUNE_STREAM_H_
