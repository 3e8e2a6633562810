#include "tests/e2e/server_fixture.h"

#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/support/client_interceptor.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/graph/graph_text.h"
#include "server/server.h"

namespace kiln::e2e {

std::unique_ptr<grpc::ClientContext> NewContext() {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(100));
  return context;
}

namespace {

// Adds a token to every call of a channel.
class WithToken final : public grpc::experimental::Interceptor {
 public:
  explicit WithToken(const std::string& token) : token_(token) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", "Bearer " + token_);
    }
    methods->Proceed();
  }

 private:
  const std::string token_;
};

class TokenFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenFactory(std::string token) : token_(std::move(token)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(grpc::experimental::ClientRpcInfo*) override {
    return new WithToken(token_);
  }

 private:
  const std::string token_;
};

}  // namespace

Stubs::Stubs(const std::string& address, const std::string& token) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // Otherwise equal channels of one process share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (!token.empty()) interceptors.push_back(std::make_unique<TokenFactory>(token));
  channel = grpc::experimental::CreateCustomChannelWithInterceptors(address, grpc::InsecureChannelCredentials(),
                                                                    arguments, std::move(interceptors));
  kernel = v1::KernelService::NewStub(channel);
  buffer = v1::BufferService::NewStub(channel);
  device = v1::DeviceService::NewStub(channel);
  debug = v1::DebugService::NewStub(channel);
  session = v1::SessionService::NewStub(channel);
  health = grpc::health::v1::Health::NewStub(channel);
}

absl::Status CallRaw(Stubs& stubs, const char* method, const std::string& bytes) {
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  const grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::NORMAL_RPC);
  return server::FromGrpc(grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      stubs.channel.get(), rpc, NewContext().get(), request, &response));
}

absl::StatusOr<v1::CompileResponse> Compile(Stubs& stubs, const v1::CompileRequest& request) {
  v1::CompileResponse response;
  KILN_RETURN_IF_ERROR(Call(*stubs.kernel, &v1::KernelService::Stub::Compile, request, response));
  return response;
}

absl::StatusOr<v1::CompileResponse> Compile(Stubs& stubs, const v1::Graph& graph) {
  v1::CompileRequest request;
  *request.mutable_graph() = graph;
  return Compile(stubs, request);
}

absl::StatusOr<v1::ExecuteResponse> Execute(Stubs& stubs, const v1::ExecuteRequest& request) {
  v1::ExecuteResponse response;
  KILN_RETURN_IF_ERROR(Call(*stubs.kernel, &v1::KernelService::Stub::Execute, request, response));
  return response;
}

absl::StatusOr<v1::BufferDescription> Allocate(Stubs& stubs, const v1::AllocateRequest& request) {
  v1::AllocateResponse response;
  KILN_RETURN_IF_ERROR(Call(*stubs.buffer, &v1::BufferService::Stub::Allocate, request, response));
  return response.buffer();
}

absl::StatusOr<uint64_t> AllocateBytes(Stubs& stubs, uint64_t bytes) {
  v1::AllocateRequest request;
  request.set_bytes(bytes);
  KILN_ASSIGN_OR_RETURN(const v1::BufferDescription buffer, Allocate(stubs, request));
  return buffer.handle();
}

absl::StatusOr<uint64_t> AllocateFloats(Stubs& stubs, int64_t count) {
  v1::AllocateRequest request;
  request.mutable_type()->set_dtype(v1::FLOAT32);
  request.mutable_type()->add_shape(count);
  KILN_ASSIGN_OR_RETURN(const v1::BufferDescription buffer, Allocate(stubs, request));
  return buffer.handle();
}

absl::Status Free(Stubs& stubs, const std::vector<uint64_t>& handles) {
  v1::FreeRequest request;
  request.mutable_handle()->Add(handles.begin(), handles.end());
  v1::FreeResponse response;
  return Call(*stubs.buffer, &v1::BufferService::Stub::Free, request, response);
}

absl::Status Upload(Stubs& stubs, uint64_t handle, const std::string& data, uint64_t offset, size_t chunk) {
  const auto context = NewContext();
  v1::WriteResponse response;
  const auto stream = stubs.buffer->Write(context.get(), &response);
  v1::WriteRequest request;
  request.mutable_header()->mutable_buffer()->set_handle(handle);
  request.mutable_header()->mutable_buffer()->set_offset(offset);
  request.mutable_header()->set_bytes(data.size());
  bool open = stream->Write(request);
  for (size_t sent = 0; open && sent < data.size(); sent += chunk) {
    request.set_chunk(data.substr(sent, chunk));
    open = stream->Write(request);
  }
  stream->WritesDone();
  return server::FromGrpc(stream->Finish());
}

absl::StatusOr<std::string> Download(Stubs& stubs, uint64_t handle, uint64_t offset, uint64_t bytes) {
  const auto context = NewContext();
  v1::ReadRequest request;
  request.mutable_buffer()->set_handle(handle);
  request.mutable_buffer()->set_offset(offset);
  request.set_bytes(bytes);
  const auto stream = stubs.buffer->Read(context.get(), request);
  std::string data;
  v1::ReadResponse response;
  while (stream->Read(&response)) data += response.chunk();
  KILN_RETURN_IF_ERROR(server::FromGrpc(stream->Finish()));
  return data;
}

grpc::health::v1::HealthCheckResponse::ServingStatus Health(Stubs& stubs, const std::string& service) {
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  grpc::health::v1::HealthCheckResponse response;
  const absl::Status status = Call(*stubs.health, &grpc::health::v1::Health::Stub::Check, request, response);
  if (!status.ok()) return grpc::health::v1::HealthCheckResponse::UNKNOWN;
  return response.status();
}

v1::Device FirstDevice(Stubs& stubs) {
  v1::DescribeDeviceResponse response;
  EXPECT_TRUE(Call(*stubs.device, &v1::DeviceService::Stub::Describe, v1::DescribeDeviceRequest(), response).ok());
  return response.device();
}

bool MemoryReturnsTo(Stubs& stubs, uint64_t bytes) {
  return Eventually([&] { return FirstDevice(stubs).memory_in_use_bytes() == bytes; });
}

bool Eventually(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + absl::Minutes(1);
  while (!condition()) {
    if (absl::Now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

v1::Graph GraphOf(absl::string_view text) {
  auto graph = ParseGraph(text);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *std::move(graph) : v1::Graph();
}

void AddBuffer(v1::ExecuteRequest& request, uint32_t slot, uint64_t handle, uint64_t offset) {
  v1::Argument* argument = request.add_arguments();
  argument->set_slot(slot);
  argument->mutable_buffer()->set_handle(handle);
  argument->mutable_buffer()->set_offset(offset);
}

void AddFloats(v1::ExecuteRequest& request, uint32_t slot, const std::vector<float>& values) {
  v1::Argument* argument = request.add_arguments();
  argument->set_slot(slot);
  argument->mutable_tensor()->set_dtype(v1::FLOAT32);
  argument->mutable_tensor()->add_shape(static_cast<int64_t>(values.size()));
  argument->mutable_tensor()->set_data(BytesOf(values));
}

std::string BytesOf(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::vector<float> FloatsOf(absl::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

namespace {

absl::StatusOr<std::unique_ptr<server::RpcServer>> StartQuietly(v1::ServerConfig config) {
  config.set_listen("127.0.0.1:0");
  // What this machine has besides is no test's affair, unless it says so.
  if (config.gpus() == "auto") config.set_gpus("none");
  config.set_measure_core(false);
  return server::StartServer(config,
                             std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>()));
}

}  // namespace

absl::Status ServerTest::StartStatus(v1::ServerConfig config) { return StartQuietly(std::move(config)).status(); }

void ServerTest::Start(v1::ServerConfig config) {
  stubs_.reset();
  server_.reset();
  auto server = StartQuietly(std::move(config));
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
  stubs_ = std::make_unique<Stubs>(address());
}

std::string ServerTest::address() const { return absl::StrCat("127.0.0.1:", server_->port()); }

}  // namespace kiln::e2e
