#include "server/services/device_service.h"

#include "compiler/options.h"
#include "server/services/call.h"
#include "server/services/convert.h"

namespace kiln::server {
namespace {

constexpr uint32_t kProtocolVersion = 1;

// What a client may rely on, by name; it never reads a version string.
constexpr const char* kFeatures[] = {
    "execute_by_hash",   // ExecuteRequest.graph_hash without a graph
    "inline_arguments",  // Argument.tensor
    "inline_results",    // RESULT_INLINE
    "views",             // BufferService.View and BufferRef.offset
    "explain",           // DebugService.Explain
    "replay",            // KernelService.RecordSequence and ReplaySequence
    "variables",         // Argument.integer
    "gradient",          // KernelService.Gradient
    "source",            // ExplainRequest.source
    "sessions",          // SessionService, and handles that end with their owner
    "watch_devices",     // DeviceService.Watch
    "collectives",       // CollectiveService
};
// Where the server's owner allows them: BufferService.MapSharedMemory, and .Load.
constexpr const char* kSharedMemoryFeature = "shared_memory";
constexpr const char* kLoadFeature = "load";

}  // namespace

grpc::ServerUnaryReactor* DeviceServiceImpl::List(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                                  grpc::ByteBuffer* response) {
  return Serve<v1::ListDevicesRequest, v1::ListDevicesResponse>(env_, context, request, response, [this](auto& call) {
    v1::ListDevicesResponse& answer = call.response();
    for (const auto& device : env_.engine.devices()) FillDevice(*device, *answer.add_devices());
    answer.set_protocol_min(kProtocolVersion);
    answer.set_protocol_max(kProtocolVersion);
    for (const char* feature : kFeatures) answer.add_features(feature);
    if (env_.shared_memory != nullptr) answer.add_features(kSharedMemoryFeature);
    if (env_.loader != nullptr) answer.add_features(kLoadFeature);
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
