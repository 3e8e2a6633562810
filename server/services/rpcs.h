// Every RPC of the server: one row each, and from the rows the services that gRPC sees. The package of a service
// stands before its rows.
//
// A row is a service, an RPC, what its messages are called (<Messages>Request and
// Response), the kind of call, and the right that its caller needs
// (server/identity/tenant.h). Its
// function is rpc::<Service>::<RPC>, which is called once the call has been admitted. An RPC
// that the protocol has and no row names is refused; rpcs_test.cc goes through them all.
//
// Kinds: UNARY; UPLOAD, a stream of requests; DOWNLOAD, one of responses; STREAM, both.
// NO_…: not served yet, UNIMPLEMENTED with the RPC's name in the detail's `field`.
#ifndef KILN_SERVER_SERVICES_RPCS_H_
#define KILN_SERVER_SERVICES_RPCS_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/service_type.h>

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/services/admission.h"
#include "server/services/call.h"
#include "server/services/env.h"

#define KILN_KERNEL_RPCS(ROW)                                         \
  ROW(KernelService, Compile, Compile, UNARY, kExecute)               \
  ROW(KernelService, Execute, Execute, UNARY, kExecute)               \
  ROW(KernelService, Submit, Submit, STREAM, kExecute)                \
  ROW(KernelService, RecordSequence, RecordSequence, UNARY, kExecute) \
  ROW(KernelService, ReplaySequence, ReplaySequence, UNARY, kExecute) \
  ROW(KernelService, Gradient, Gradient, UNARY, kExecute)

#define KILN_BUFFER_RPCS(ROW)                                   \
  ROW(BufferService, Allocate, Allocate, UNARY, kExecute)       \
  ROW(BufferService, Write, Write, UPLOAD, kExecute)            \
  ROW(BufferService, Read, Read, DOWNLOAD, kExecute)            \
  ROW(BufferService, Copy, Copy, UNARY, kExecute)               \
  ROW(BufferService, Fill, Fill, UNARY, kExecute)               \
  ROW(BufferService, View, View, UNARY, kExecute)               \
  ROW(BufferService, Free, Free, UNARY, kExecute)               \
  ROW(BufferService, Describe, DescribeBuffer, UNARY, kExecute) \
  ROW(BufferService, ListTensors, ListTensors, UNARY, kExecute) \
  ROW(BufferService, Load, Load, UNARY, kExecute)               \
  ROW(BufferService, MapSharedMemory, MapSharedMemory, UNARY, kExecute)

#define KILN_DEVICE_RPCS(ROW)                                   \
  ROW(DeviceService, List, ListDevices, UNARY, kExecute)        \
  ROW(DeviceService, Describe, DescribeDevice, UNARY, kExecute) \
  ROW(DeviceService, Watch, WatchDevices, DOWNLOAD, kExecute)

#define KILN_DEBUG_RPCS(ROW)                                   \
  ROW(DebugService, Explain, Explain, UNARY, kDebug)           \
  ROW(DebugService, ListPrograms, ListPrograms, UNARY, kDebug) \
  ROW(DebugService, Tune, Tune, DOWNLOAD, kDebug)              \
  ROW(DebugService, Trace, Trace, UNARY, kDebug)               \
  ROW(DebugService, State, State, UNARY, kDebug)               \
  ROW(DebugService, Time, Time, UNARY, kDebug)                 \
  ROW(DebugService, Evict, Evict, UNARY, kDebug)               \
  ROW(DebugService, Export, Export, DOWNLOAD, kDebug)          \
  ROW(DebugService, Import, Import, UPLOAD, kAdmin)

#define KILN_SESSION_RPCS(ROW)                              \
  ROW(SessionService, Open, OpenSession, UNARY, kExecute)   \
  ROW(SessionService, Renew, RenewSession, UNARY, kExecute) \
  ROW(SessionService, Close, CloseSession, UNARY, kExecute) \
  ROW(SessionService, Usage, Usage, UNARY, kKnown)

#define KILN_COLLECTIVE_RPCS(ROW)                                    \
  ROW(CollectiveService, Broadcast, Collective, UNARY, kExecute)     \
  ROW(CollectiveService, Scatter, Collective, UNARY, kExecute)       \
  ROW(CollectiveService, Gather, Collective, UNARY, kExecute)        \
  ROW(CollectiveService, Reduce, Collective, UNARY, kExecute)        \
  ROW(CollectiveService, AllGather, Collective, UNARY, kExecute)     \
  ROW(CollectiveService, ReduceScatter, Collective, UNARY, kExecute) \
  ROW(CollectiveService, AllReduce, Collective, UNARY, kExecute)

// Those of package kiln.v1.
#define KILN_OWN_RPCS(ROW) \
  KILN_KERNEL_RPCS(ROW)    \
  KILN_BUFFER_RPCS(ROW)    \
  KILN_DEVICE_RPCS(ROW)    \
  KILN_DEBUG_RPCS(ROW)     \
  KILN_SESSION_RPCS(ROW)   \
  KILN_COLLECTIVE_RPCS(ROW)

// Package inference, which is not ours: the open inference protocol.
#define KILN_INFERENCE_RPCS(ROW)                                                                         \
  ROW(GRPCInferenceService, ServerLive, ServerLive, UNARY, kExecute)                                     \
  ROW(GRPCInferenceService, ServerReady, ServerReady, UNARY, kExecute)                                   \
  ROW(GRPCInferenceService, ModelReady, ModelReady, UNARY, kExecute)                                     \
  ROW(GRPCInferenceService, ServerMetadata, ServerMetadata, UNARY, kExecute)                             \
  ROW(GRPCInferenceService, ModelMetadata, ModelMetadata, UNARY, kExecute)                               \
  ROW(GRPCInferenceService, ModelInfer, ModelInfer, UNARY, kExecute)                                     \
  ROW(GRPCInferenceService, ModelStreamInfer, ModelStreamInfer, STREAM, kExecute)                        \
  ROW(GRPCInferenceService, ModelConfig, ModelConfig, UNARY, kExecute)                                   \
  ROW(GRPCInferenceService, ModelStatistics, ModelStatistics, UNARY, kExecute)                           \
  ROW(GRPCInferenceService, RepositoryIndex, RepositoryIndex, UNARY, kAdmin)                             \
  ROW(GRPCInferenceService, RepositoryModelLoad, RepositoryModelLoad, UNARY, kAdmin)                     \
  ROW(GRPCInferenceService, RepositoryModelUnload, RepositoryModelUnload, UNARY, kAdmin)                 \
  ROW(GRPCInferenceService, SystemSharedMemoryStatus, SystemSharedMemoryStatus, UNARY, kExecute)         \
  ROW(GRPCInferenceService, SystemSharedMemoryRegister, SystemSharedMemoryRegister, UNARY, kExecute)     \
  ROW(GRPCInferenceService, SystemSharedMemoryUnregister, SystemSharedMemoryUnregister, UNARY, kExecute) \
  ROW(GRPCInferenceService, CudaSharedMemoryStatus, CudaSharedMemoryStatus, UNARY, kExecute)             \
  ROW(GRPCInferenceService, CudaSharedMemoryRegister, CudaSharedMemoryRegister, UNARY, kExecute)         \
  ROW(GRPCInferenceService, CudaSharedMemoryUnregister, CudaSharedMemoryUnregister, UNARY, kExecute)     \
  ROW(GRPCInferenceService, TraceSetting, TraceSetting, UNARY, kExecute)                                 \
  ROW(GRPCInferenceService, LogSettings, LogSettings, UNARY, kExecute)

// Package grpc.reflection.v1alpha, which is gRPC's.
#define KILN_REFLECTION_RPCS(ROW) ROW(ServerReflection, ServerReflectionInfo, ServerReflection, STREAM, kKnown)

#define KILN_RPCS(ROW)     \
  KILN_OWN_RPCS(ROW)       \
  KILN_INFERENCE_RPCS(ROW) \
  KILN_REFLECTION_RPCS(ROW)

// The messages by name: a row's function includes the header that protoc made of its own.
#define KILN_DECLARE_MESSAGES(Service, Rpc, Messages, Kind, right) \
  class Messages##Request;                                         \
  class Messages##Response;
namespace kiln::v1 {
KILN_OWN_RPCS(KILN_DECLARE_MESSAGES)
}  // namespace kiln::v1
namespace inference {
KILN_INFERENCE_RPCS(KILN_DECLARE_MESSAGES)
}  // namespace inference
#undef KILN_DECLARE_MESSAGES

// So that a row need not say whose messages are meant.
namespace kiln::v1 {
#define KILN_USE_MESSAGES(Service, Rpc, Messages, Kind, right) \
  using ::inference::Messages##Request;                        \
  using ::inference::Messages##Response;
KILN_INFERENCE_RPCS(KILN_USE_MESSAGES)
#undef KILN_USE_MESSAGES
}  // namespace kiln::v1

namespace kiln::server {

struct RpcRow {
  absl::string_view package;  // "kiln.v1"
  absl::string_view service;  // "KernelService"
  absl::string_view name;     // "Compile"
  Right right;
  bool served;
  bool unary;
};
absl::Span<const RpcRow> RpcRows();
// "KernelService.Compile", of the row of this number; valid for ever.
absl::string_view MethodName(size_t row);

// All services, for a grpc::ServerBuilder; reflection, if it is wanted. What `env` names outlives them.
std::vector<std::unique_ptr<grpc::Service>> MakeServices(const ServiceEnv& env, bool reflection);

using UploadReactor = Revocable<grpc::ServerReadReactor<grpc::ByteBuffer>>;
using DownloadReactor = Revocable<grpc::ServerWriteReactor<grpc::ByteBuffer>>;
using StreamReactor = Revocable<grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>>;

// The function of each row that is served. A unary one makes the call's Reply; the others
// return what ends the call itself and owns the admission until then.
#define KILN_RPC_FUNCTION_UNARY(Rpc, Messages) \
  static void Rpc(UnaryCall<v1::Messages##Request, v1::Messages##Response>& call);
#define KILN_RPC_FUNCTION_UPLOAD(Rpc, Messages) \
  static UploadReactor* Rpc(Admitted admitted, grpc::ByteBuffer* response);
#define KILN_RPC_FUNCTION_DOWNLOAD(Rpc, Messages) \
  static DownloadReactor* Rpc(Admitted admitted, const grpc::ByteBuffer& request);
#define KILN_RPC_FUNCTION_STREAM(Rpc, Messages) static StreamReactor* Rpc(Admitted admitted);
#define KILN_RPC_FUNCTION_NO_UNARY(Rpc, Messages)
#define KILN_RPC_FUNCTION_NO_UPLOAD(Rpc, Messages)
#define KILN_RPC_FUNCTION_NO_DOWNLOAD(Rpc, Messages)
#define KILN_RPC_FUNCTION_NO_STREAM(Rpc, Messages)
#define KILN_RPC_FUNCTION(Service, Rpc, Messages, Kind, right) KILN_RPC_FUNCTION_##Kind(Rpc, Messages)

namespace rpc {

struct KernelService {
  KILN_KERNEL_RPCS(KILN_RPC_FUNCTION)
};
struct BufferService {
  KILN_BUFFER_RPCS(KILN_RPC_FUNCTION)
};
struct DeviceService {
  KILN_DEVICE_RPCS(KILN_RPC_FUNCTION)
};
struct DebugService {
  KILN_DEBUG_RPCS(KILN_RPC_FUNCTION)
};
struct SessionService {
  KILN_SESSION_RPCS(KILN_RPC_FUNCTION)
};
struct CollectiveService {
  KILN_COLLECTIVE_RPCS(KILN_RPC_FUNCTION)
};
struct GRPCInferenceService {
  KILN_INFERENCE_RPCS(KILN_RPC_FUNCTION)
};
struct ServerReflection {
  KILN_REFLECTION_RPCS(KILN_RPC_FUNCTION)
};

}  // namespace rpc
}  // namespace kiln::server

#endif  // KILN_SERVER_SERVICES_RPCS_H_
