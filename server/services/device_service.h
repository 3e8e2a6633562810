// DeviceService: what the server computes on, and what it can do.
#ifndef KILN_SERVER_SERVICES_DEVICE_SERVICE_H_
#define KILN_SERVER_SERVICES_DEVICE_SERVICE_H_

#include <grpcpp/grpcpp.h>

#include "kiln/v1/device_service.grpc.pb.h"
#include "server/services/device_watch.h"
#include "server/services/env.h"

namespace kiln::server {

using DeviceServiceBase =
    v1::DeviceService::WithRawCallbackMethod_List<v1::DeviceService::WithRawCallbackMethod_Describe<
        v1::DeviceService::WithRawCallbackMethod_Watch<v1::DeviceService::Service>>>;

class DeviceServiceImpl final : public DeviceServiceBase {
 public:
  explicit DeviceServiceImpl(const ServiceEnv& env) : env_(env), watch_(env) {}

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                 grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* Describe(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                     grpc::ByteBuffer* response) override;
  grpc::ServerWriteReactor<grpc::ByteBuffer>* Watch(grpc::CallbackServerContext* context,
                                                    const grpc::ByteBuffer* request) override;

 private:
  const ServiceEnv env_;
  DeviceWatch watch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_DEVICE_SERVICE_H_
