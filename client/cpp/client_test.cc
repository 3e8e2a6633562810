// The client against a server that is a few lines here: what goes over the wire,
// and what comes of failures.
#include "client/cpp/client.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "base/graph/graph_hash.h"
#include "client/cpp/ops.h"
#include "google/rpc/status.pb.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/device_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"

namespace kiln::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

grpc::Status Failure(v1::ErrorCode code, const std::string& message, uint32_t retry_after_ms = 0) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_retry_after_ms(retry_after_ms);
  detail.set_node(7);
  google::rpc::Status status;
  status.set_code(static_cast<int>(StatusCodeOf(code)));
  google::protobuf::Any& any = *status.add_details();
  any.set_type_url(std::string(kErrorDetailUrl));
  any.set_value(detail.SerializeAsString());
  return grpc::Status(static_cast<grpc::StatusCode>(StatusCodeOf(code)), message, status.SerializeAsString());
}

class FakeDevices : public v1::DeviceService::Service {
 public:
  grpc::Status List(grpc::ServerContext*, const v1::ListDevicesRequest*, v1::ListDevicesResponse* response) override {
    response->add_devices()->set_name("FAKE:0");
    response->set_protocol_min(protocol_min);
    response->set_protocol_max(9);
    return grpc::Status::OK;
  }
  uint32_t protocol_min = 1;
};

// A program with one result of its own and one that is the updated parameter 0.
class FakeKernels : public v1::KernelService::Service {
 public:
  grpc::Status Compile(grpc::ServerContext*, const v1::CompileRequest* request,
                       v1::CompileResponse* response) override {
    if (request->graph().nodes_size() == 0) return Failure(v1::GRAPH_EMPTY, "no nodes");
    response->set_graph_hash(hash.empty() ? std::string(HashGraph(request->graph())->Bytes()) : hash);
    response->mutable_signature()->add_parameters();
    response->mutable_signature()->add_results()->set_bytes(8);
    response->mutable_signature()->add_results()->set_aliases(aliased);
    return grpc::Status::OK;
  }
  grpc::Status Execute(grpc::ServerContext*, const v1::ExecuteRequest* request,
                       v1::ExecuteResponse* response) override {
    {
      absl::MutexLock lock(&mutex);
      requests.push_back(*request);
    }
    if (begun) begun();
    absl::MutexLock lock(&mutex);  // a call that was given up goes on here beside the next
    if (refusals > 0) {
      --refusals;
      return Failure(v1::QUOTA_EXCEEDED, "later", /*retry_after_ms=*/1);
    }
    if (forgetful && !request->has_graph()) return Failure(v1::NEED_GRAPH, "send it");
    forgetful = false;
    v1::BufferDescription& made = *response->add_results()->mutable_buffer();
    made.set_handle(next_result++);
    made.set_dtype(v1::FLOAT32);
    made.add_shape(2);
    made.set_bytes(result_bytes);
    response->add_results()->mutable_buffer()->set_handle(1);
    return grpc::Status::OK;
  }
  // What it lies about, if it does.
  std::string hash;
  uint32_t aliased = 0;
  uint64_t result_bytes = 8;
  std::function<void()> begun;
  int refusals = 0;
  bool forgetful = false;
  uint64_t next_result = 100;
  std::vector<v1::ExecuteRequest> requests;
  absl::Mutex mutex;
};

// Memory is one string.
class FakeBuffers : public v1::BufferService::Service {
 public:
  grpc::Status Allocate(grpc::ServerContext*, const v1::AllocateRequest* request,
                        v1::AllocateResponse* response) override {
    if (request->bytes() > 1 << 30) return Failure(v1::OUT_OF_MEMORY, "too much");
    response->mutable_buffer()->set_handle(1);
    uint64_t items = 1;  // of one byte each
    for (const int64_t size : request->type().shape()) items *= static_cast<uint64_t>(size);
    response->mutable_buffer()->set_bytes(request->has_type() ? items : request->bytes());
    if (made_bytes > 0) response->mutable_buffer()->set_bytes(made_bytes);
    response->mutable_buffer()->set_dtype(request->type().dtype());
    *response->mutable_buffer()->mutable_shape() = request->type().shape();
    return grpc::Status::OK;
  }
  grpc::Status Write(grpc::ServerContext*, grpc::ServerReader<v1::WriteRequest>* reader, v1::WriteResponse*) override {
    v1::WriteRequest message;
    while (reader->Read(&message)) {
      if (message.has_chunk()) memory += message.chunk();
      if (message.has_chunk()) ++chunks;
      if (memory.size() > 5 << 20) return Failure(v1::OUT_OF_BOUNDS, "enough");
    }
    return grpc::Status::OK;
  }
  grpc::Status Read(grpc::ServerContext*, const v1::ReadRequest*,
                    grpc::ServerWriter<v1::ReadResponse>* writer) override {
    for (size_t i = 0; i < memory.size(); i += 1000000) {
      v1::ReadResponse message;
      message.set_chunk(memory.substr(i, 1000000));
      writer->Write(message);
    }
    return grpc::Status::OK;
  }
  grpc::Status Free(grpc::ServerContext*, const v1::FreeRequest* request, v1::FreeResponse*) override {
    freed.emplace_back(request->handle().begin(), request->handle().end());
    return grpc::Status::OK;
  }
  uint64_t made_bytes = 0;  // a lie, if it is not 0
  std::string memory;
  int chunks = 0;
  std::vector<std::vector<uint64_t>> freed;
};

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&devices_).RegisterService(&kernels_).RegisterService(&buffers_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    target_ = "127.0.0.1:" + std::to_string(port);
  }

  std::unique_ptr<Client> Connect() {
    auto client = Client::Connect(target_);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  static v1::Graph SomeGraph() {
    Graph graph;
    graph.Output(graph.Param(0, v1::FLOAT32, {2}) + 1);
    return *graph.Build();
  }

  FakeDevices devices_;
  FakeKernels kernels_;
  FakeBuffers buffers_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_;
};

TEST_F(ClientTest, ErrorsKeepTheirDetail) {
  const auto program = Connect()->Compile(v1::Graph());
  EXPECT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(program.status().message(), "no nodes");
  const auto detail = DetailOf(program.status());
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->code(), v1::GRAPH_EMPTY);
  EXPECT_EQ(detail->node(), 7u);
}

TEST_F(ClientTest, TheGraphTravelsOnceUnlessForgotten) {
  const auto client = Connect();
  const auto program = client->Compile(SomeGraph());
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_TRUE(program->Run(Arguments()).ok());
  kernels_.forgetful = true;
  ASSERT_TRUE(program->Run(Arguments()).ok());
  ASSERT_EQ(kernels_.requests.size(), 3u);
  EXPECT_FALSE(kernels_.requests[0].has_graph());
  EXPECT_FALSE(kernels_.requests[1].has_graph());
  EXPECT_TRUE(kernels_.requests[2].has_graph());
  const std::string hash(HashGraph(SomeGraph())->Bytes());
  for (const v1::ExecuteRequest& request : kernels_.requests) EXPECT_EQ(request.graph_hash(), hash);
}

TEST_F(ClientTest, WhatNoServerMaySayIsNotBelieved) {
  const auto client = Connect();
  kernels_.hash = std::string(32, 'h');
  const absl::Status other = client->Compile(SomeGraph()).status();
  EXPECT_EQ(DetailOf(other)->code(), v1::HASH_MISMATCH) << other;
  kernels_.hash.clear();
  kernels_.aliased = 1;
  const absl::Status nowhere = client->Compile(SomeGraph()).status();
  EXPECT_THAT(nowhere.message(), HasSubstr("result 1 is parameter 1 of 1"));
  kernels_.aliased = 0;
  const auto program = client->Compile(SomeGraph());
  ASSERT_TRUE(program.ok()) << program.status();
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{9}, uint64_t{1} << 60}) {
    kernels_.result_bytes = bytes;
    const absl::Status status = program->Run(Arguments()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(status.message(), HasSubstr("result 0 of another size"));
  }
  buffers_.made_bytes = uint64_t{1} << 60;
  EXPECT_THAT(client->Allocate(8).status().message(), HasSubstr("1152921504606846976 bytes, not 8"));
}

TEST_F(ClientTest, ACallIsGivenUpByAnotherThread) {
  const auto client = Connect();
  const auto program = client->Compile(SomeGraph());
  ASSERT_TRUE(program.ok()) << program.status();
  std::atomic<Cancellation*> next = nullptr;
  kernels_.begun = [&next] {
    if (Cancellation* given_up = next.exchange(nullptr); given_up != nullptr) given_up->Cancel();
  };
  const auto run = [&](Cancellation& cancellation) {
    return program->Run(Arguments(), {.cancellation = &cancellation}).status().code();
  };
  Cancellation given_up;
  next = &given_up;
  EXPECT_EQ(run(given_up), absl::StatusCode::kCancelled);
  EXPECT_EQ(kernels_.requests.size(), 1u);
  EXPECT_EQ(run(given_up), absl::StatusCode::kCancelled);
  EXPECT_EQ(kernels_.requests.size(), 1u) << "the server heard of a call that was given up before it began";
  Cancellation kept;
  EXPECT_EQ(run(kept), absl::StatusCode::kOk);
  EXPECT_EQ(kernels_.requests.size(), 2u);
}

TEST_F(ClientTest, ARunEndsWithItsTime) {
  const auto client = Connect();
  const auto program = client->Compile(SomeGraph());
  ASSERT_TRUE(program.ok()) << program.status();
  kernels_.begun = [] { absl::SleepFor(absl::Seconds(1)); };
  const absl::Status late = program->Run(Arguments(), {.timeout = absl::Milliseconds(50)}).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded) << late;
}

TEST_F(ClientTest, WhatIsRefusedForNowIsCalledAgainButNotForEver) {
  const auto client = Connect();
  const auto program = client->Compile(SomeGraph());
  ASSERT_TRUE(program.ok()) << program.status();
  kernels_.refusals = 2;
  EXPECT_TRUE(program->Run(Arguments()).ok());
  EXPECT_EQ(kernels_.requests.size(), 3u);
  EXPECT_EQ(client->traffic()["Execute"].calls, 3u);
  kernels_.refusals = 5;
  const absl::Status refused = program->Run(Arguments()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(DetailOf(refused)->retry_after_ms(), 1u);
  EXPECT_EQ(kernels_.requests.size(), 6u);
}

TEST_F(ClientTest, ArgumentsAreSetBySlotAndSetAnew) {
  const auto client = Connect();
  const auto program = client->Compile(SomeGraph());
  auto buffer = client->Allocate(8);
  ASSERT_TRUE(program.ok() && buffer.ok());
  Arguments arguments;
  arguments.Set(2, *buffer, 4).Set(5, HostTensor::Of<int16_t>({2}, {1, 2})).Set(7, int64_t{-3});
  arguments.Set(2, *buffer, 6);
  ASSERT_TRUE(program->Run(arguments, {.results = v1::RESULT_INLINE}).ok());
  const v1::ExecuteRequest& request = kernels_.requests[0];
  ASSERT_EQ(request.arguments_size(), 3);
  EXPECT_EQ(request.arguments(0).buffer().offset(), 6u);
  EXPECT_EQ(request.arguments(1).tensor().dtype(), v1::INT16);
  EXPECT_EQ(request.arguments(1).tensor().data(), std::string("\1\0\2\0", 4));
  EXPECT_EQ(request.arguments(2).integer(), -3);
  EXPECT_EQ(request.result_mode(), v1::RESULT_INLINE);
}

TEST_F(ClientTest, HandlesAreGivenBackOnceAndInBatches) {
  {
    const auto client = Connect();
    const auto program = client->Compile(SomeGraph());
    ASSERT_TRUE(program.ok());
    for (int i = 0; i < 70; ++i) ASSERT_TRUE(program->Run(Arguments()).ok());
    ASSERT_EQ(buffers_.freed.size(), 1u);
    EXPECT_EQ(buffers_.freed[0].size(), 64u);
  }
  // The rest goes with the connection; handle 1, the parameter, is never freed.
  ASSERT_EQ(buffers_.freed.size(), 2u);
  EXPECT_THAT(buffers_.freed[1], ElementsAre(164, 165, 166, 167, 168, 169));
}

TEST_F(ClientTest, LargeTensorsTravelInChunks) {
  const auto client = Connect();
  HostTensor tensor{v1::UINT8, {3000000}, std::string(3000000, 'x')};
  tensor.bytes.back() = 'y';
  auto buffer = client->Upload(tensor);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffers_.chunks, 3);
  const auto back = client->Download(*buffer);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->bytes, tensor.bytes);
  EXPECT_EQ(back->shape, tensor.shape);
  const auto traffic = client->traffic();
  EXPECT_GT(traffic.at("Write").sent_bytes, 3000000u);
  EXPECT_LT(traffic.at("Write").sent_bytes, 3000200u);
  EXPECT_GT(traffic.at("Read").received_bytes, 3000000u);
}

TEST_F(ClientTest, AnAnswerOfAnotherLengthIsNoAnswer) {
  const auto client = Connect();
  auto buffer = client->Allocate(2000000);
  ASSERT_TRUE(buffer.ok());
  for (const size_t size : {0, 1999999, 2000001, 4000000}) {
    buffers_.memory = std::string(size, 'm');
    EXPECT_EQ(client->Read(*buffer).status().code(), absl::StatusCode::kInternal) << size;
  }
  buffers_.memory = std::string(2000000, 'm');
  EXPECT_EQ(*client->Read(*buffer), buffers_.memory);
}

TEST_F(ClientTest, AnUploadThatIsRefusedSaysWhy) {
  const auto client = Connect();
  auto buffer = client->Allocate(8 << 20);
  ASSERT_TRUE(buffer.ok());
  const absl::Status status = client->Write(*buffer, std::string(8 << 20, 'x'));
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(), "enough");
  EXPECT_EQ(client->Allocate(uint64_t{1} << 40).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(ClientTest, RefusesAServerOfAnotherProtocol) {
  devices_.protocol_min = 2;
  const auto client = Client::Connect(target_);
  EXPECT_EQ(client.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(client.status().message(), HasSubstr("speaks protocol 2 to 9; this client speaks 1"));
}

TEST_F(ClientTest, SaysWhenNoServerIsThere) {
  const auto client = Connect();
  server_->Shutdown();
  EXPECT_THAT(client->Devices().status().message(), HasSubstr(target_ + " does not answer"));
  const auto again = Client::Connect(target_, {.connect_timeout = absl::Milliseconds(50)});
  EXPECT_EQ(again.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(again.status().message(), HasSubstr("is kilnd running there?"));
}

}  // namespace
}  // namespace kiln::client
