// A server with CPU:0 to CPU:3, for tests of what runs on several of them.
#ifndef KILN_TESTS_E2E_MULTI_DEVICE_SERVER_H_
#define KILN_TESTS_E2E_MULTI_DEVICE_SERVER_H_

#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "compiler/compile_program.h"
#include "compiler/gradient/gradient.h"
#include "kiln/v1/collective_service.grpc.pb.h"
#include "runtime/drivers/cpu/device.h"
#include "server/engine/engine.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {

class MultiDeviceServer : public ServerTest {
 protected:
  void SetUp() override { Begin(absl::Seconds(60)); }

  void Begin(absl::Duration timeout) {
    server_ = nullptr;
    devices_.clear();
    auto pool = std::make_shared<runtime::cpu::WorkerPool>(runtime::cpu::WorkerPool::Options{.threads = 1});
    std::vector<std::unique_ptr<runtime::hal::Device>> devices;
    for (int i = 0; i < 4; ++i) {
      runtime::cpu::DeviceOptions options;
      options.name = absl::StrCat("CPU:", i);
      options.pool = pool;
      options.memory_limit_bytes = 256 << 20;
      auto device = runtime::cpu::CreateDevice(std::move(options));
      ASSERT_TRUE(device.ok()) << device.status();
      devices_.push_back(device->get());
      devices.push_back(*std::move(device));
    }
    server::EngineOptions engine_options;
    engine_options.meeting_timeout = timeout;
    auto engine = std::make_unique<server::Engine>(engine_options, std::move(devices),
                                                   server::InProcess(compiler::CompileProgram),
                                                   server::GradientInProcess(compiler::Gradient));
    v1::ServerConfig config = server::DefaultConfig();
    config.set_listen("127.0.0.1:0");
    auto log = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
    auto rpc_server = server::RpcServer::Start(config, std::move(engine), std::move(log));
    ASSERT_TRUE(rpc_server.ok()) << rpc_server.status();
    server_ = *std::move(rpc_server);
    stubs_ = std::make_unique<Stubs>(address());
  }

  uint64_t FloatsOn(const std::string& device, const std::vector<float>& values) {
    v1::AllocateRequest request;
    request.set_device(device);
    request.mutable_type()->set_dtype(v1::FLOAT32);
    request.mutable_type()->add_shape(2);
    request.mutable_type()->add_shape(static_cast<int64_t>(values.size()) / 2);
    const auto buffer = Allocate(*stubs_, request);
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_TRUE(Upload(*stubs_, buffer->handle(), BytesOf(values)).ok());
    return buffer->handle();
  }

  // Keeps a device busy until `release`.
  void Block(int device, absl::Notification& release) {
    devices_[static_cast<size_t>(device)]->queue().Submit([&release] { release.WaitForNotification(); }, ~uint64_t{0});
  }

  absl::Status AllReduce(const std::vector<uint64_t>& buffers) {
    v1::CollectiveRequest request;
    for (uint64_t handle : buffers) {
      request.add_input()->set_handle(handle);
      request.add_output()->set_handle(handle);
    }
    request.set_dtype(v1::FLOAT32);
    request.set_count(4);
    request.set_op(v1::ADD);
    v1::CollectiveResponse response;
    grpc::ClientContext context;
    return server::FromGrpc(
        v1::CollectiveService::NewStub(grpc::CreateChannel(address(), grpc::InsecureChannelCredentials()))
            ->AllReduce(&context, request, &response));
  }

  static void ExpectMissing(const absl::Status& status, absl::string_view device) {
    const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::PARTICIPANT_MISSING) << status;
    EXPECT_EQ(detail.field(), device) << status;
    EXPECT_NE(status.message().find(device), absl::string_view::npos) << status;
  }

  void ExpectError(const v1::ExecuteRequest& request, v1::ErrorCode code, absl::string_view text) {
    const auto response = Execute(*stubs_, request);
    ASSERT_FALSE(response.ok()) << text;
    const auto detail = DetailOf(response.status());
    ASSERT_TRUE(detail.has_value()) << response.status();
    EXPECT_EQ(detail->code(), code) << response.status();
    EXPECT_NE(response.status().message().find(text), absl::string_view::npos) << response.status();
  }

  std::vector<runtime::hal::Device*> devices_;
};

}  // namespace kiln::e2e

#endif  // KILN_TESTS_E2E_MULTI_DEVICE_SERVER_H_
