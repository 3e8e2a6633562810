// What one client may hold at once: sessions and handles, as the configuration
// says. Each refusal names its limit, and leaves nothing behind.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/engine/memory/session.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

class LimitsTest : public ServerTest {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    v1::ServerConfig::SessionLimits& limits = *config.mutable_session_limits();
    limits.set_default_lease_seconds(60);
    limits.set_max_lease_seconds(90);
    limits.set_max_sessions(4);
    limits.set_max_sessions_per_address(3);
    limits.set_max_handles(2);
    config.set_max_handles(3);
    Start(config);
  }

  absl::StatusOr<v1::OpenSessionResponse> Open(uint32_t lease_seconds) {
    v1::OpenSessionRequest request;
    request.set_lease_seconds(lease_seconds);
    v1::OpenSessionResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs_->session, &v1::SessionService::Stub::Open, request, response));
    return response;
  }

  // Under the session of `token`.
  absl::Status Allocate(const std::string& token) {
    const auto context = Under(token);
    v1::AllocateRequest request;
    request.set_bytes(32);
    v1::AllocateResponse response;
    return server::FromGrpc(stubs_->buffer->Allocate(context.get(), request, &response));
  }

  // -x and x + x of eight ones, as two new buffers or by value.
  absl::Status ExecuteForTwo(const std::string& token, v1::ResultMode mode) {
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(R"(
      0 CONST [] weakint 8
      1 PARAM : float32 [0] slot=0
      2 NEG [1]
      3 ADD [1, 1]
      4 TUPLE [2, 3]
    )");
    AddFloats(request, 0, std::vector<float>(8, 1.0f));
    request.set_result_mode(mode);
    const auto context = Under(token);
    v1::ExecuteResponse response;
    return server::FromGrpc(stubs_->kernel->Execute(context.get(), request, &response));
  }

  std::unique_ptr<grpc::ClientContext> Under(const std::string& token) {
    auto context = NewContext();
    context->AddMetadata(server::kSessionHeader, token);
    return context;
  }

  void ExpectLimit(const absl::Status& status, const std::string& limit, uint64_t max_value,
                   const std::string& field = "") {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    const v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::OUT_OF_MEMORY) << status;
    EXPECT_EQ(detail.limit(), limit) << status;
    EXPECT_EQ(detail.limit_value(), max_value) << status;
    EXPECT_EQ(detail.used(), max_value + 1) << status;
    EXPECT_EQ(detail.field(), field) << status;
  }

  uint64_t handles() { return server_->engine().buffers().count(); }
};

TEST_F(LimitsTest, LeasesAndSessions) {
  EXPECT_EQ(Open(0)->lease_seconds(), 60u);
  EXPECT_EQ(Open(90)->lease_seconds(), 90u);
  EXPECT_EQ(Open(91)->lease_seconds(), 90u);
  // Every client of this test is at one address, however many connections it has.
  ExpectLimit(Open(1).status(), "sessions of one address", 3);
  stubs_ = std::make_unique<Stubs>(address());
  ExpectLimit(Open(1).status(), "sessions of one address", 3);
  EXPECT_EQ(server_->engine().sessions().size(), 3u);
}

TEST_F(LimitsTest, HandlesOfOneSession) {
  const uint64_t before = FirstDevice(*stubs_).buffers();
  const std::string token = Open(0)->token();
  ASSERT_TRUE(Allocate(token).ok());
  // An Execute that meets the limit with its second result leaves nothing of the first.
  ExpectLimit(ExecuteForTwo(token, v1::RESULT_HANDLES), "handles", 2, server::kSessionHeader);
  EXPECT_EQ(handles(), 1u);
  EXPECT_TRUE(ExecuteForTwo(token, v1::RESULT_INLINE).ok());
  ASSERT_TRUE(Allocate(token).ok());
  ExpectLimit(Allocate(token), "handles", 2, server::kSessionHeader);
  EXPECT_TRUE(AllocateBytes(*stubs_, 32).ok());
  EXPECT_EQ(handles(), 3u);
  EXPECT_TRUE(Eventually([&] { return FirstDevice(*stubs_).buffers() == before + 3; }));
}

TEST_F(LimitsTest, HandlesOfAllTogether) {
  const uint64_t kept = *AllocateBytes(*stubs_, 32);
  ASSERT_TRUE(AllocateBytes(*stubs_, 32).ok());
  const std::string token = Open(0)->token();
  ExpectLimit(ExecuteForTwo(token, v1::RESULT_HANDLES), "handles", 3);
  EXPECT_EQ(handles(), 2u);
  v1::ViewRequest view;
  view.mutable_of()->set_handle(kept);
  v1::ViewResponse response;
  ASSERT_TRUE(Call(*stubs_->buffer, &v1::BufferService::Stub::View, view, response).ok());
  ExpectLimit(Call(*stubs_->buffer, &v1::BufferService::Stub::View, view, response), "handles", 3);
  ExpectLimit(Allocate(token), "handles", 3);
  ASSERT_TRUE(Free(*stubs_, {kept}).ok());
  EXPECT_TRUE(Allocate(token).ok());
}

}  // namespace
}  // namespace kiln::e2e
