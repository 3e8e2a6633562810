// A whole server in this process, on a free loopback port, and its clients'
// stubs: what every end-to-end test starts from.
#ifndef KILN_TESTS_E2E_SERVER_FIXTURE_H_
#define KILN_TESTS_E2E_SERVER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/error.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "kiln/v1/buffer_service.grpc.pb.h"
#include "kiln/v1/debug_service.grpc.pb.h"
#include "kiln/v1/device_service.grpc.pb.h"
#include "kiln/v1/kernel_service.grpc.pb.h"
#include "kiln/v1/session_service.grpc.pb.h"
#include "server/config.h"
#include "server/messages/status.h"
#include "server/rpc_server.h"

namespace kiln::e2e {

// Every stub over one channel of its own.
struct Stubs {
  // `token`, if there is one, goes with every call.
  explicit Stubs(const std::string& address, const std::string& token = "");
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::KernelService::Stub> kernel;
  std::unique_ptr<v1::BufferService::Stub> buffer;
  std::unique_ptr<v1::DeviceService::Stub> device;
  std::unique_ptr<v1::DebugService::Stub> debug;
  std::unique_ptr<v1::SessionService::Stub> session;
  std::unique_ptr<grpc::health::v1::Health::Stub> health;
};

// Calls end by themselves if a server hangs.
std::unique_ptr<grpc::ClientContext> NewContext();

// One unary call: Call(*stubs.kernel, &v1::KernelService::Stub::Compile, request, response).
template <typename Stub, typename Request, typename Response>
absl::Status Call(Stub& stub, grpc::Status (Stub::*rpc)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response& response) {
  return server::FromGrpc((stub.*rpc)(NewContext().get(), request, &response));
}

// The same with a request that need be no message: "/kiln.v1.KernelService/Execute".
absl::Status CallRaw(Stubs& stubs, const char* method, const std::string& bytes);

absl::StatusOr<v1::CompileResponse> Compile(Stubs& stubs, const v1::CompileRequest& request);
absl::StatusOr<v1::CompileResponse> Compile(Stubs& stubs, const v1::Graph& graph);
absl::StatusOr<v1::ExecuteResponse> Execute(Stubs& stubs, const v1::ExecuteRequest& request);
absl::StatusOr<v1::BufferDescription> Allocate(Stubs& stubs, const v1::AllocateRequest& request);
absl::StatusOr<uint64_t> AllocateBytes(Stubs& stubs, uint64_t bytes);
absl::StatusOr<uint64_t> AllocateFloats(Stubs& stubs, int64_t count);
absl::Status Free(Stubs& stubs, const std::vector<uint64_t>& handles);
// Whole uploads and downloads, in chunks of `chunk` bytes.
absl::Status Upload(Stubs& stubs, uint64_t handle, const std::string& data, uint64_t offset = 0,
                    size_t chunk = 1 << 20);
absl::StatusOr<std::string> Download(Stubs& stubs, uint64_t handle, uint64_t offset = 0, uint64_t bytes = 0);
// "" means the server as a whole.
grpc::health::v1::HealthCheckResponse::ServingStatus Health(Stubs& stubs, const std::string& service = "");
v1::Device FirstDevice(Stubs& stubs);
// Whether the first device's memory in use comes to be `bytes`: what an answered
// request held may be given back a moment after its answer.
bool MemoryReturnsTo(Stubs& stubs, uint64_t bytes);

// Polls what other threads or processes do; a minute is far more than it takes.
bool Eventually(const std::function<bool()>& condition);

// The graph that `text` describes (base/graph/graph_text.h); it must be well formed.
v1::Graph GraphOf(absl::string_view text);

// An argument by handle, or float32s by value.
void AddBuffer(v1::ExecuteRequest& request, uint32_t slot, uint64_t handle, uint64_t offset = 0);
void AddFloats(v1::ExecuteRequest& request, uint32_t slot, const std::vector<float>& values);

std::string BytesOf(const std::vector<float>& values);
std::vector<float> FloatsOf(absl::string_view bytes);

// y = x + 1 for float32 [8] in slot 0.
inline constexpr char kAddOne[] = R"(
  0 CONST [] weakint 8
  1 PARAM : float32 [0] slot=0
  2 CONST [] float32 1.0
  3 ADD [1, 2]
  4 TUPLE [3]
)";

// x += 1 in place, for float32 [8] in slot 0; its result is x itself.
inline constexpr char kAddOneInPlace[] = R"(
  0 CONST [] weakint 8
  1 PARAM : float32 [0] slot=0
  2 CONST [] float32 1.0
  3 ADD [1, 2]
  4 STORE [1, 3]
  5 AFTER [1, 4]
  6 TUPLE [5]
)";

class ServerTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(server::DefaultConfig()); }

  // A fresh server; its address is a free loopback port whatever `config` says.
  void Start(v1::ServerConfig config);

  // How a start with this configuration goes; nothing is kept of it.
  absl::Status StartStatus(v1::ServerConfig config);

  std::string address() const;

  std::unique_ptr<server::RpcServer> server_;
  std::unique_ptr<Stubs> stubs_;
};

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_SERVER_FIXTURE_H_
