// DebugService: for people that look inside.
#ifndef KILN_SERVER_SERVICES_DEBUG_SERVICE_H_
#define KILN_SERVER_SERVICES_DEBUG_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "kiln/v1/debug_service.grpc.pb.h"
#include "server/services/env.h"
#include "server/services/unimplemented.h"

namespace kiln::server {

using DebugServiceBase =
    v1::DebugService::WithRawCallbackMethod_Explain<v1::DebugService::WithRawCallbackMethod_ListPrograms<
        v1::DebugService::WithRawCallbackMethod_Tune<v1::DebugService::WithCallbackMethod_Evict<
            v1::DebugService::WithCallbackMethod_Export<v1::DebugService::WithCallbackMethod_Import<
                v1::DebugService::WithCallbackMethod_Time<v1::DebugService::WithCallbackMethod_Record<
                    v1::DebugService::WithCallbackMethod_SetTracing<v1::DebugService::Service>>>>>>>>>;

class DebugServiceImpl final : public DebugServiceBase {
 public:
  explicit DebugServiceImpl(const ServiceEnv& env) : env_(env) {}

  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ListPrograms(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Tune(grpc::CallbackServerContext* context,
                                                   const grpc::ByteBuffer* request) override;
  KILN_UNIMPLEMENTED_UNARY(DebugService, Evict, v1::EvictRequest, v1::EvictResponse)
  KILN_UNIMPLEMENTED_SERVER_STREAM(DebugService, Export, v1::ExportRequest, v1::ExportResponse)
  KILN_UNIMPLEMENTED_CLIENT_STREAM(DebugService, Import, v1::ImportRequest, v1::ImportResponse)
  KILN_UNIMPLEMENTED_UNARY(DebugService, Time, v1::TimeRequest, v1::TimeResponse)
  KILN_UNIMPLEMENTED_UNARY(DebugService, Record, v1::RecordRequest, v1::RecordResponse)
  KILN_UNIMPLEMENTED_UNARY(DebugService, SetTracing, v1::SetTracingRequest, v1::SetTracingResponse)

 private:
  const ServiceEnv env_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_DEBUG_SERVICE_H_
