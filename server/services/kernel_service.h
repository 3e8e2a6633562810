// KernelService: compile graphs and run them.
#ifndef KILN_SERVER_SERVICES_KERNEL_SERVICE_H_
#define KILN_SERVER_SERVICES_KERNEL_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "kiln/v1/kernel_service.grpc.pb.h"
#include "server/services/env.h"

namespace kiln::server {

using KernelServiceBase = v1::KernelService::WithRawCallbackMethod_Compile<
    v1::KernelService::WithRawCallbackMethod_Execute<v1::KernelService::WithRawCallbackMethod_Submit<
        v1::KernelService::WithRawCallbackMethod_RecordSequence<v1::KernelService::WithRawCallbackMethod_ReplaySequence<
            v1::KernelService::WithRawCallbackMethod_Gradient<v1::KernelService::Service>>>>>>;

class KernelServiceImpl final : public KernelServiceBase {
 public:
  explicit KernelServiceImpl(const ServiceEnv& env) : env_(env) {}

  grpc::ServerUnaryReactor* Compile(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Execute(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* RecordSequence(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ReplaySequence(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                           grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Gradient(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Submit(grpc::CallbackServerContext* context) override;

 private:
  const ServiceEnv env_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_KERNEL_SERVICE_H_
