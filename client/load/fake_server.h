// A server of a few lines, for tests of who sends to it: it answers when a test wants it to, and remembers what came.
#ifndef KILN_CLIENT_LOAD_FAKE_SERVER_H_
#define KILN_CLIENT_LOAD_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "base/graph/graph_hash.h"
#include "client/cpp/arrays/dtype.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/device_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"

namespace kiln::load {

// Of one device.
class FakeDevices : public v1::DeviceService::Service {
 public:
  grpc::Status List(grpc::ServerContext*, const v1::ListDevicesRequest*, v1::ListDevicesResponse* response) override {
    response->add_devices()->set_name("FAKE:0");
    response->set_protocol_min(1);
    response->set_protocol_max(1);
    return grpc::Status::OK;
  }
};

// Whose programs take one parameter; `answer` says how a run ends, and when.
class FakeServer : public v1::KernelService::Service {
 public:
  grpc::Status Compile(grpc::ServerContext*, const v1::CompileRequest* request,
                       v1::CompileResponse* response) override {
    absl::MutexLock lock(&mutex);
    compiled.push_back(request->graph().SerializeAsString());
    hashes.emplace_back(HashGraph(request->graph())->Bytes());
    response->set_graph_hash(hashes.back());
    auto& parameter = *response->mutable_signature()->add_parameters();
    parameter.set_dtype(v1::FLOAT32);
    parameter.add_shape(4);
    return grpc::Status::OK;
  }
  grpc::Status Execute(grpc::ServerContext* context, const v1::ExecuteRequest* request, v1::ExecuteResponse*) override {
    int number = 0;
    {
      absl::MutexLock lock(&mutex);
      number = calls++;
      most_at_once = std::max(most_at_once, ++at_once);
      requests.push_back(*request);
      const auto token = context->client_metadata().find("authorization");
      const std::string bearer =
          token == context->client_metadata().end() ? "" : std::string(token->second.data(), token->second.size());
      peers[bearer].insert(context->peer());
    }
    const grpc::Status status = answer(number, *context);
    absl::MutexLock lock(&mutex);
    --at_once;
    return status;
  }

  // The first call, number 0, comes while a class is made ready.
  std::function<grpc::Status(int number, grpc::ServerContext& context)> answer = [](int, grpc::ServerContext&) {
    return grpc::Status::OK;
  };
  absl::Mutex mutex;
  int calls = 0, at_once = 0, most_at_once = 0;
  std::vector<v1::ExecuteRequest> requests;
  std::vector<std::string> compiled, hashes;
  std::map<std::string, std::set<std::string>> peers;
};

// Whose memory is a count of what came.
class FakeBuffers : public v1::BufferService::Service {
 public:
  grpc::Status Allocate(grpc::ServerContext*, const v1::AllocateRequest* request,
                        v1::AllocateResponse* response) override {
    const client::Shape shape(request->type().shape().begin(), request->type().shape().end());
    response->mutable_buffer()->set_handle(5);
    const auto typed = client::ByteCount(request->type().dtype(), shape);
    response->mutable_buffer()->set_bytes(request->has_type() ? *typed : request->bytes());
    return grpc::Status::OK;
  }
  grpc::Status Write(grpc::ServerContext*, grpc::ServerReader<v1::WriteRequest>* reader, v1::WriteResponse*) override {
    v1::WriteRequest message;
    uint64_t promised = 0, came = 0;
    while (reader->Read(&message)) {
      promised += message.header().bytes();
      came += message.chunk().size();
    }
    absl::MutexLock lock(&mutex);
    uploads.emplace_back(promised, came);
    return grpc::Status::OK;
  }
  grpc::Status Free(grpc::ServerContext*, const v1::FreeRequest*, v1::FreeResponse*) override {
    return grpc::Status::OK;
  }
  absl::Mutex mutex;
  std::vector<std::pair<uint64_t, uint64_t>> uploads;
};

}  // namespace kiln::load

#endif  // KILN_CLIENT_LOAD_FAKE_SERVER_H_
