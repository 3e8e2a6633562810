// CollectiveService: what several devices do with one tensor.
#ifndef KILN_SERVER_SERVICES_COLLECTIVE_SERVICE_H_
#define KILN_SERVER_SERVICES_COLLECTIVE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "kiln/v1/collective_service.grpc.pb.h"
#include "server/services/env.h"

namespace kiln::server {

using CollectiveServiceBase = v1::CollectiveService::WithRawCallbackMethod_Broadcast<
    v1::CollectiveService::WithRawCallbackMethod_Scatter<v1::CollectiveService::WithRawCallbackMethod_Gather<
        v1::CollectiveService::WithRawCallbackMethod_Reduce<v1::CollectiveService::WithRawCallbackMethod_AllGather<
            v1::CollectiveService::WithRawCallbackMethod_ReduceScatter<
                v1::CollectiveService::WithRawCallbackMethod_AllReduce<v1::CollectiveService::Service>>>>>>>;

class CollectiveServiceImpl final : public CollectiveServiceBase {
 public:
  explicit CollectiveServiceImpl(const ServiceEnv& env) : env_(env) {}

  grpc::ServerUnaryReactor* Broadcast(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Scatter(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                    grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Gather(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Reduce(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* AllGather(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* ReduceScatter(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                          grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* AllReduce(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                      grpc::ByteBuffer* response) override;

 private:
  const ServiceEnv env_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_COLLECTIVE_SERVICE_H_
