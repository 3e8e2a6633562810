#include "server/services/device_service.h"

#include "compiler/options/version.h"
#include "server/messages/convert.h"
#include "server/services/call.h"
#include "server/services/features.h"

namespace kiln::server {

grpc::ServerUnaryReactor* DeviceServiceImpl::List(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Serve<v1::ListDevicesRequest, v1::ListDevicesResponse>(env_, context, request, response, [this](auto& call) {
    v1::ListDevicesResponse& answer = call.response();
    for (const auto& device : env_.engine.devices()) FillDevice(*device, *answer.add_devices());
    for (const v1::AbsentDevices& absent : env_.engine.absent()) *answer.add_absent() = absent;
    answer.set_protocol_min(kProtocolVersion);
    answer.set_protocol_max(kProtocolVersion);
    for (const char* feature : FeaturesOf(env_)) answer.add_features(feature);
    answer.set_server_version(compiler::kCompilerVersion);
    call.Reply(absl::OkStatus());
  });
}

grpc::ServerUnaryReactor* DeviceServiceImpl::Describe(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request, grpc::ByteBuffer* response) {
  return Serve<v1::DescribeDeviceRequest, v1::DescribeDeviceResponse>(
      env_, context, request, response, [this](auto& call) {
        const auto device = env_.engine.FindDevice(call.request().name());
        if (!device.ok()) return call.Reply(device.status());
        FillDevice(**device, *call.response().mutable_device());
        call.Reply(absl::OkStatus());
      });
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* DeviceServiceImpl::Watch(grpc::CallbackServerContext* context,
                                                                     const grpc::ByteBuffer* request) {
  return watch_.Start(*context, *request);
}

}  // namespace kiln::server
