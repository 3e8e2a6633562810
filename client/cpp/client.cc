#include "client/cpp/client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "client/cpp/transport/stubs.h"
#include "client/cpp/transport/transfer.h"

namespace kiln::client {
namespace {

// The version of the protocol this library was written for.
constexpr uint32_t kProtocol = 1;
// Features of servers.
constexpr char kSharedMemory[] = "shared_memory";
constexpr char kSessions[] = "sessions";
constexpr char kSubmit[] = "submit";

// For the server behind a balancer, which is near it.
constexpr absl::Duration kDirectly = absl::Seconds(2);

// What a read of nothing needs.
absl::Status CheckOffset(const DeviceBuffer& buffer, uint64_t offset) {
  if (offset <= buffer.bytes()) return absl::OkStatus();
  return MakeError(v1::OUT_OF_BOUNDS,
                   absl::StrCat("byte ", offset, " of a buffer that has ", buffer.bytes(), " of them"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& target, ClientOptions options) {
  KILN_ASSIGN_OR_RETURN(auto client, ConnectTo(target, options, options.connect_timeout));
  if (const std::string address = client->server_.address();
      !address.empty() && address != target && MayFollow(options.credentials, address)) {
    // It has come by a balancer to one of several servers: what is made is in that one's memory. If it cannot be
    // reached itself, the balancer must keep us there.
    auto direct = ConnectTo(address, options, std::min(options.connect_timeout, kDirectly));
    if (direct.ok() && (*direct)->server_.address() == address) client = *std::move(direct);
  }
  if (options.lease > absl::ZeroDuration() && client->HasFeature(kSessions)) {
    KILN_RETURN_IF_ERROR(client->connection_->BeginSession(absl::Now() + options.connect_timeout));
  }
  // A server says which socket memory is handed to; one on another machine has no say in what is opened here.
  if (options.shared_memory && StaysHere(client->connection_->target()) && client->HasFeature(kSharedMemory)) {
    // Another machine, another user, no room: then a socket does it.
    auto memory = SharedMemory::Open(*client->connection_);
    if (memory.ok()) client->shared_memory_ = *std::move(memory);
  }
  return client;
}

absl::StatusOr<std::unique_ptr<Client>> Client::ConnectTo(const std::string& target, const ClientOptions& options,
                                                          absl::Duration patience) {
  KILN_RETURN_IF_ERROR(CheckCredentials(options.credentials, target));
  auto connection = std::make_shared<Connection>(target, options);
  const absl::Time deadline = absl::Now() + patience;
  KILN_RETURN_IF_ERROR(connection->WaitUntilReady(patience));
  std::unique_ptr<Client> client(new Client(std::move(connection)));
  KILN_ASSIGN_OR_RETURN(client->server_, client->Devices(deadline));
  const v1::ListDevicesResponse& server = client->server_;
  if (kProtocol < server.protocol_min() || kProtocol > server.protocol_max()) {
    return absl::FailedPreconditionError(absl::StrCat("the server at ", target, " speaks protocol ",
                                                      server.protocol_min(), " to ", server.protocol_max(),
                                                      "; this client speaks ", kProtocol));
  }
  return client;
}

absl::StatusOr<Program> Client::Compile(v1::Graph graph, const v1::CompileOptions& options) {
  v1::CompileRequest request;
  *request.mutable_graph() = std::move(graph);
  request.set_device(connection_->options().device);
  *request.mutable_options() = options;
  v1::CompileResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().kernels, &v1::KernelService::Stub::Compile, "Compile",
                            request, &response));
  KILN_RETURN_IF_ERROR(CheckCompiled(response));
  KILN_ASSIGN_OR_RETURN(const GraphHash hash, HashGraph(request.graph()));
  if (response.graph_hash() != hash.Bytes()) {
    return MakeError(v1::HASH_MISMATCH,
                     absl::StrCat("the server says that the graph's hash is ",
                                  absl::BytesToHexString(response.graph_hash()), "; it is ", hash.Hex()));
  }
  return Program(connection_, std::move(*request.mutable_graph()), options, std::move(response));
}

bool Client::HasFeature(absl::string_view name) const {
  return std::find(server_.features().begin(), server_.features().end(), name) != server_.features().end();
}

absl::StatusOr<v1::GradientResponse> Client::Gradient(v1::Graph graph, const GradientOptions& options) {
  v1::GradientRequest request;
  *request.mutable_graph() = std::move(graph);
  request.set_result(options.result);
  request.mutable_wrt_slot()->Add(options.wrt_slots.begin(), options.wrt_slots.end());
  if (options.cotangent_slot) request.set_cotangent_slot(*options.cotangent_slot);
  request.set_include_results(options.include_results);
  v1::GradientResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().kernels, &v1::KernelService::Stub::Gradient, "Gradient",
                            request, &response));
  return response;
}

absl::StatusOr<DeviceBuffer> Client::Allocate(const v1::AllocateRequest& request) {
  // Memory that waits to be given back may be what this request needs.
  connection_->FlushFrees();
  v1::AllocateResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().buffers, &v1::BufferService::Stub::Allocate, "Allocate",
                            request, &response));
  const v1::TensorType& type = request.type();
  const uint64_t wanted =
      request.has_type()
          ? static_cast<uint64_t>(ByteCount(type.dtype(), Shape(type.shape().begin(), type.shape().end())).value_or(0))
          : request.bytes();
  DeviceBuffer made(connection_, std::move(*response.mutable_buffer()));
  if (made.bytes() == wanted) return made;
  return MakeError(v1::INTERNAL_FAULT,
                   absl::StrCat("the server made a buffer of ", made.bytes(), " bytes, not ", wanted));
}

absl::StatusOr<DeviceBuffer> Client::Allocate(uint64_t bytes) {
  v1::AllocateRequest request;
  request.set_device(connection_->options().device);
  request.set_bytes(bytes);
  return Allocate(request);
}

absl::StatusOr<DeviceBuffer> Client::Allocate(v1::DType dtype, const Shape& shape) {
  return Allocate(dtype, shape, connection_->options().device);
}

absl::StatusOr<DeviceBuffer> Client::Allocate(v1::DType dtype, const Shape& shape, const std::string& device) {
  v1::AllocateRequest request;
  request.set_device(device);
  request.mutable_type()->set_dtype(dtype);
  request.mutable_type()->mutable_shape()->Assign(shape.begin(), shape.end());
  return Allocate(request);
}

absl::Status Client::Write(const DeviceBuffer& buffer, absl::string_view bytes, uint64_t offset) {
  if (SharesMemory() && !bytes.empty()) {
    const absl::Status status = shared_memory_->Upload(buffer.Ref(offset), bytes);
    if (!shared_memory_->lost()) return status;
  }
  return kiln::client::Upload(*connection_, buffer.Ref(offset), bytes);
}

absl::Status Client::ReadInto(const DeviceBuffer& buffer, absl::Span<char> target, uint64_t offset) {
  if (target.empty()) return CheckOffset(buffer, offset);
  if (SharesMemory()) {
    const absl::Status status = shared_memory_->Download(buffer.Ref(offset), target);
    if (!shared_memory_->lost()) return status;
  }
  return kiln::client::Download(*connection_, buffer.Ref(offset), target);
}

absl::StatusOr<std::shared_ptr<SharedBytes>> Client::AllocateShared(uint64_t bytes) {
  if (SharesMemory()) return shared_memory_->Allocate(bytes);
  return absl::UnimplementedError(
      "the server shares no memory with this process: kilnd --shared_memory_max_bytes=N, on the same machine");
}

const char* Client::transport() const {
  if (SharesMemory()) return "shared memory";
  return absl::StartsWith(connection_->target(), "unix:") ? "unix socket" : "tcp";
}

absl::StatusOr<std::string> Client::Read(const DeviceBuffer& buffer, uint64_t offset, uint64_t bytes) {
  // An offset that lies behind the end the server refuses.
  if (bytes == 0 && offset < buffer.bytes()) bytes = buffer.bytes() - offset;
  std::string result;
  if (bytes == 0 || SharesMemory()) {
    result.resize(bytes);
    KILN_RETURN_IF_ERROR(ReadInto(buffer, absl::MakeSpan(&result[0], result.size()), offset));
    return result;
  }
  // It grows by chunks: the zeros that it is made of are still in the cache when data takes their place.
  result.reserve(bytes);
  KILN_RETURN_IF_ERROR(kiln::client::Download(*connection_, buffer.Ref(offset), bytes, [&result](size_t size) {
    result.resize(result.size() + size);
    return result.data() + result.size() - size;
  }));
  return result;
}

absl::StatusOr<DeviceBuffer> Client::Upload(const HostTensor& tensor) {
  return Upload(tensor, connection_->options().device);
}

absl::StatusOr<DeviceBuffer> Client::Upload(const HostTensor& tensor, const std::string& device) {
  KILN_ASSIGN_OR_RETURN(DeviceBuffer buffer, Allocate(tensor.dtype, tensor.shape, device));
  KILN_RETURN_IF_ERROR(Write(buffer, tensor.bytes));
  return buffer;
}

absl::StatusOr<HostTensor> Client::Download(const DeviceBuffer& buffer) {
  HostTensor tensor{buffer.dtype(), buffer.shape(), ""};
  KILN_ASSIGN_OR_RETURN(tensor.bytes, Read(buffer));
  return tensor;
}

absl::Status Client::Copy(const v1::BufferRef& from, const v1::BufferRef& to, uint64_t bytes) {
  v1::CopyRequest request;
  *request.mutable_from() = from;
  *request.mutable_to() = to;
  request.set_bytes(bytes);
  v1::CopyResponse response;
  return Call(*connection_, connection_->stubs().buffers, &v1::BufferService::Stub::Copy, "Copy", request, &response);
}

absl::Status Client::Fill(const v1::BufferRef& buffer, absl::string_view pattern, uint64_t bytes) {
  v1::FillRequest request;
  *request.mutable_buffer() = buffer;
  request.set_bytes(bytes);
  request.set_pattern(std::string(pattern));
  v1::FillResponse response;
  return Call(*connection_, connection_->stubs().buffers, &v1::BufferService::Stub::Fill, "Fill", request, &response);
}

absl::StatusOr<DeviceBuffer> Client::View(const v1::BufferRef& of, v1::DType dtype, const Shape& shape) {
  const std::optional<int64_t> bytes = ByteCount(dtype, shape);
  if (!bytes.has_value()) {
    return MakeError(v1::SIZE_OVERFLOW, absl::StrCat("a view of ", TypeText(dtype, shape), " has no size"));
  }
  v1::ViewRequest request;
  *request.mutable_of() = of;
  request.set_bytes(*bytes);
  request.set_dtype(dtype);
  request.mutable_shape()->Assign(shape.begin(), shape.end());
  v1::ViewResponse response;
  KILN_RETURN_IF_ERROR(
      Call(*connection_, connection_->stubs().buffers, &v1::BufferService::Stub::View, "View", request, &response));
  return DeviceBuffer(connection_, std::move(*response.mutable_buffer()));
}

absl::StatusOr<v1::BufferDescription> Client::Describe(uint64_t handle) {
  v1::DescribeBufferRequest request;
  request.set_handle(handle);
  v1::DescribeBufferResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().buffers, &v1::BufferService::Stub::Describe, "Describe",
                            request, &response));
  return response.buffer();
}

absl::StatusOr<v1::ListDevicesResponse> Client::Devices() { return Devices(connection_->Deadline()); }

absl::StatusOr<v1::ListDevicesResponse> Client::Devices(absl::Time deadline) {
  v1::ListDevicesResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().devices, &v1::DeviceService::Stub::List, "List",
                            v1::ListDevicesRequest(), &response, deadline));
  return response;
}

absl::Status Client::WatchDevices(const std::function<bool(const v1::Device&)>& seen) {
  grpc::ClientContext context;
  connection_->Prepare(context);
  const v1::WatchDevicesRequest request;
  const auto stream = connection_->stubs().devices->Watch(&context, request);
  v1::WatchDevicesResponse response;
  bool wanted = true;
  while (wanted && stream->Read(&response)) {
    connection_->Count("Watch", 0, 0, response.ByteSizeLong());
    wanted = seen(response.device());
  }
  if (!wanted) context.TryCancel();
  const grpc::Status status = stream->Finish();
  connection_->Count("Watch", 1, request.ByteSizeLong(), 0);
  return wanted ? connection_->Convert(status) : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Stream>> Client::OpenStream(const StreamOptions& options) {
  if (!HasFeature(kSubmit) || !HasFeature(kSessions)) {
    return MakeError(v1::NOT_IMPLEMENTED, "the server has no streams of commands under a session");
  }
  return Stream::Open(connection_, options);
}

absl::StatusOr<v1::CollectiveResponse> Client::Collective(v1::CollectiveCommand::Kind kind,
                                                          const v1::CollectiveRequest& request) {
  using Stub = v1::CollectiveService::Stub;
  using Command = v1::CollectiveCommand;
  const auto rpc = [kind]() -> grpc::Status (Stub::*)(grpc::ClientContext*, const v1::CollectiveRequest&,
                                                      v1::CollectiveResponse*) {
    switch (kind) {
      case Command::BROADCAST: return &Stub::Broadcast;
      case Command::SCATTER: return &Stub::Scatter;
      case Command::GATHER: return &Stub::Gather;
      case Command::REDUCE: return &Stub::Reduce;
      case Command::ALL_GATHER: return &Stub::AllGather;
      case Command::REDUCE_SCATTER: return &Stub::ReduceScatter;
      case Command::ALL_REDUCE: return &Stub::AllReduce;
      default: return nullptr;
    }
  }();
  if (rpc == nullptr) return MakeError(v1::BAD_ARGUMENT, absl::StrCat("there is no collective of kind ", kind));
  v1::CollectiveResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().collectives, rpc, "Collective", request, &response));
  return response;
}

absl::StatusOr<v1::UsageResponse> Client::Usage(bool all_tenants) {
  v1::UsageRequest request;
  request.set_all_tenants(all_tenants);
  v1::UsageResponse response;
  KILN_RETURN_IF_ERROR(
      Call(*connection_, connection_->stubs().sessions, &v1::SessionService::Stub::Usage, "Usage", request, &response));
  return response;
}

absl::Status Client::Health(const std::string& service) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  KILN_RETURN_IF_ERROR(Call(*connection_, connection_->stubs().health, &grpc::health::v1::Health::Stub::Check, "Check",
                            request, &response));
  if (response.status() == grpc::health::v1::HealthCheckResponse::SERVING) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the server says ", grpc::health::v1::HealthCheckResponse::ServingStatus_Name(response.status())));
}

}  // namespace kiln::client
