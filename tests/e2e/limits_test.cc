// What one client may hold at once: sessions and handles, as the configuration
// says. Each refusal names its limit, and leaves nothing behind. And the threads that large
// requests wait for.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/engine/engine.h"
#include "server/engine/memory/session.h"
#include "tests/e2e/submit/submit_client.h"

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

// Large requests wait for threads of their own, which here are busy before Open().
class LargeRequestsTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    const int threads = static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
    absl::BlockingCounter busy(threads);
    for (int i = 0; i < threads; ++i) {
      server_->requests().Push("nobody", [this, &busy] {
        busy.DecrementCount();
        open_.WaitForNotification();
      });
    }
    busy.Wait();
    *request_.mutable_graph() = GraphOf(R"(
      0 CONST [] weakint 8192
      1 PARAM : float32 [0] slot=0
      2 CONST [] float32 1.0
      3 ADD [1, 2]
      4 TUPLE [3]
    )");
    request_.set_result_mode(v1::RESULT_INLINE);
    AddFloats(request_, 0, std::vector<float>(kFloats, 1.0f));
  }
  void TearDown() override {
    if (!open_.HasBeenNotified()) open_.Notify();
    EXPECT_TRUE(server_->Drain(absl::Minutes(1)));
  }

  void Open() { open_.Notify(); }
  bool Wait(size_t requests) {
    return Eventually([&] { return server_->requests().waiting() == requests; });
  }

  static constexpr size_t kFloats = 8192, kBytes = 4 * kFloats;
  v1::ExecuteRequest request_;
  absl::Notification open_;
};

TEST_F(LargeRequestsTest, DoNotDelaySmallOnes) {
  absl::StatusOr<v1::ExecuteResponse> answer;
  std::thread client([&] { answer = Execute(*stubs_, request_); });
  EXPECT_TRUE(Wait(1));
  EXPECT_EQ(FirstDevice(*stubs_).name(), "CPU:0");
  EXPECT_TRUE(server_->engine().ListPrograms(nullptr).empty());
  Open();
  client.join();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(FloatsOf(answer->results(0).tensor().data()), std::vector<float>(kFloats, 2.0f));
}

TEST_F(LargeRequestsTest, AreNotReadOnceNobodyWaitsForThem) {
  constexpr absl::Duration kPatience = absl::Milliseconds(500);
  absl::Status status;
  std::thread client([&] {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
    v1::ExecuteResponse response;
    status = server::FromGrpc(stubs_->kernel->Execute(&context, request_, &response));
  });
  EXPECT_TRUE(Wait(1));
  // The server counts from when the request came.
  const absl::Time passed = absl::Now() + 2 * kPatience;
  client.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(Eventually([&] { return absl::Now() > passed; }));
  Open();
  EXPECT_TRUE(server_->Drain(absl::Minutes(1)));
  EXPECT_TRUE(server_->engine().ListPrograms(nullptr).empty());
}

TEST_F(LargeRequestsTest, OfAStreamKeepTheirPlaceInIt) {
  SubmitClient client(*stubs_);
  client.Allocate(1, kBytes);
  client.Write(1, std::string(kBytes, 'a'));
  client.Write(1, "bc", 1);
  const uint64_t read = client.Read(1);
  EXPECT_TRUE(Wait(1));
  Open();
  const auto answer = client.Next();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->command_id(), read);
  EXPECT_TRUE(answer->data() == "abc" + std::string(kBytes - 3, 'a'));
  client.WritesDone();
  EXPECT_FALSE(client.Next().has_value());
  EXPECT_TRUE(client.Finish().ok());
}

// The thread that has read one may not be done with it when the next has come, nor when the stream ends.
TEST_F(LargeRequestsTest, OfAStreamMayFollowEachOtherAtOnce) {
  Open();
  const uint64_t before = FirstDevice(*stubs_).memory_in_use_bytes();
  for (int i = 0; i < 200; ++i) {
    SubmitClient client(*stubs_);
    client.Allocate(1, kBytes);
    for (int k = 0; k < 4; ++k) client.Write(1, std::string(kBytes, 'a'));
    if (i % 2 == 0) {
      client.Drop();
      continue;
    }
    client.WritesDone();
    EXPECT_FALSE(client.Next().has_value());
    EXPECT_TRUE(client.Finish().ok());
  }
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, before));
}

// What is left of the streams goes when their messages have had their turn.
TEST_F(LargeRequestsTest, OfAStreamThatIsGoneLeaveNothing) {
  const uint64_t before = FirstDevice(*stubs_).memory_in_use_bytes();
  SubmitClient client(*stubs_);
  client.Allocate(1, kBytes);
  client.Write(1, std::string(kBytes, 'a'));
  EXPECT_TRUE(Wait(1));
  client.Drop();
  SubmitClient stranger(*stubs_, std::string(kBytes, 'x'));
  EXPECT_TRUE(Wait(2));
  Open();
  EXPECT_FALSE(stranger.Next().has_value());
  EXPECT_EQ(stranger.Finish().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, before));
  EXPECT_TRUE(Eventually([&] { return server_->engine().buffers().count() == 0; }));
}

}  // namespace
}  // namespace kiln::e2e
