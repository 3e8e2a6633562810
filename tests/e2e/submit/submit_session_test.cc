// Streams under a session: they are taken up again, and nothing is done twice or lost.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "server/engine/memory/session.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

class SubmitSessionTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    v1::CompileRequest request;
    *request.mutable_graph() = GraphOf(kAddOneInPlace);
    in_place_.set_graph_hash(Compile(*stubs_, request)->graph_hash());
    before_ = FirstDevice(*stubs_).memory_in_use_bytes();
  }

  std::string Open(uint32_t lease_seconds) {
    v1::OpenSessionRequest request;
    request.set_lease_seconds(lease_seconds);
    v1::OpenSessionResponse response;
    EXPECT_TRUE(Call(*stubs_->session, &v1::SessionService::Stub::Open, request, response).ok());
    return response.token();
  }

  void Close(const std::string& token) {
    v1::CloseSessionRequest request;
    request.set_token(token);
    v1::CloseSessionResponse response;
    EXPECT_TRUE(Call(*stubs_->session, &v1::SessionService::Stub::Close, request, response).ok());
  }

  v1::ExecuteRequest InPlace(uint64_t handle) {
    v1::ExecuteRequest request = in_place_;
    AddBuffer(request, 0, handle);
    return request;
  }

  void ExpectBaseline() {
    EXPECT_TRUE(MemoryReturnsTo(*stubs_, before_));
    EXPECT_TRUE(Eventually([&] { return server_->engine().buffers().count() == 0; }));
  }

  v1::ExecuteRequest in_place_;
  uint64_t before_ = 0;
};

TEST_F(SubmitSessionTest, ALostConnectionIsTakenUpAgain) {
  const std::string token = Open(3600);
  SubmitClient first(*stubs_, token);
  first.Allocate(1, 32);
  first.Execute(InPlace(1), {0});
  EXPECT_EQ(FloatsOf(first.ReadBack(1)), std::vector<float>(8, 1.0f));
  first.Drop();

  // The first three are passed over, and the answer that was not acknowledged comes again.
  SubmitClient second(*stubs_, token);
  second.Allocate(1, 32);
  second.Execute(InPlace(1), {0});
  second.Read(1);
  second.Execute(InPlace(1), {0});
  second.Read(1);
  const auto again = second.Next();
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(second.welcome.accepted(), 3u);
  EXPECT_EQ(again->command_id(), 3u);
  EXPECT_EQ(FloatsOf(again->data()), std::vector<float>(8, 1.0f));
  const auto next = second.Next();
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(next->command_id(), 5u);
  EXPECT_EQ(FloatsOf(next->data()), std::vector<float>(8, 2.0f));
  second.Drop();

  SubmitClient third(*stubs_, token, /*acknowledged=*/5);
  third.next_id = 6;
  third.Fence();
  const auto fence = third.Next();
  ASSERT_TRUE(fence.has_value());
  EXPECT_TRUE(fence->has_fence());
  EXPECT_EQ(third.welcome.accepted(), 5u);
  EXPECT_EQ(third.welcome.answers_lost(), 0u);
  Close(token);
  EXPECT_EQ(third.FailureCode(), v1::SESSION_EXPIRED);
  ExpectBaseline();
}

TEST_F(SubmitSessionTest, TheNewestConnectionHasTheSession) {
  const std::string token = Open(3600);
  SubmitClient first(*stubs_, token);
  first.Allocate(1, 8);
  first.Fence();
  ASSERT_TRUE(first.Next()->has_fence());
  SubmitClient second(*stubs_, token, /*acknowledged=*/2);
  EXPECT_EQ(first.FailureCode(), v1::SESSION_BUSY);
  second.next_id = 3;
  EXPECT_EQ(second.ReadBack(1), std::string(8, '\0'));
  second.WritesDone();
  EXPECT_FALSE(second.Next().has_value());
  EXPECT_TRUE(second.Finish().ok());
  Close(token);
  ExpectBaseline();
}

TEST_F(SubmitSessionTest, OtherCallsOfTheSessionKnowItsNames) {
  const std::string token = Open(3600);
  SubmitClient client(*stubs_, token);
  client.Allocate(1, 4);
  client.Write(1, "abcd");
  client.Fence();
  ASSERT_TRUE(client.Next()->has_fence());
  const auto read = [&](const std::string& caller) {
    const auto context = NewContext();
    if (!caller.empty()) context->AddMetadata(server::kSessionHeader, caller);
    v1::ReadRequest request;
    request.mutable_buffer()->set_handle(1);
    const auto stream = stubs_->buffer->Read(context.get(), request);
    v1::ReadResponse response;
    std::string data;
    while (stream->Read(&response)) data += response.chunk();
    const absl::Status status = server::FromGrpc(stream->Finish());
    return status.ok() ? data : std::string(v1::ErrorCode_Name(DetailOf(status)->code()));
  };
  EXPECT_EQ(read(token), "abcd");
  EXPECT_EQ(read(""), "UNKNOWN_HANDLE");
  EXPECT_EQ(read(Open(3600)), "UNKNOWN_HANDLE");
  client.Write(1, "abcde");
  EXPECT_EQ(client.FailureCode(), v1::OUT_OF_BOUNDS);
  EXPECT_EQ(read(token), "OUT_OF_BOUNDS");  // poisoned
  client.Free({1});
  client.Fence();
  ASSERT_TRUE(client.Next()->has_fence());
  EXPECT_EQ(read(token), "HANDLE_FREED");
  Close(token);
  ExpectBaseline();
}

TEST_F(SubmitSessionTest, NoSessionIsExpired) {
  SubmitClient never(*stubs_, std::string(16, 'x'));
  EXPECT_EQ(never.FailureCode(), v1::SESSION_EXPIRED);

  const std::string token = Open(1);
  {
    SubmitClient client(*stubs_, token);
    client.Allocate(1, 1 << 20);
    client.Fence();
    ASSERT_TRUE(client.Next()->has_fence());
    client.Drop();
  }
  ExpectBaseline();
  SubmitClient late(*stubs_, token);
  EXPECT_EQ(late.FailureCode(), v1::SESSION_EXPIRED);
}

TEST_F(SubmitSessionTest, ALeaseDoesNotRunOutUnderAConnection) {
  const std::string token = Open(1);
  SubmitClient client(*stubs_, token);
  client.Allocate(1, 8);
  // Another session's lease of the same length, begun later, runs out meanwhile.
  Open(1);
  ASSERT_TRUE(Eventually([&] { return server_->engine().sessions().size() == 1; }));
  EXPECT_EQ(client.ReadBack(1), std::string(8, '\0'));
  client.Drop();
  ExpectBaseline();
}

TEST_F(SubmitSessionTest, AnswersThatAreNotAcknowledgedAreBounded) {
  v1::ServerConfig config = server::DefaultConfig();
  config.mutable_stream_limits()->set_max_answer_bytes(1 << 16);
  Start(config);
  before_ = FirstDevice(*stubs_).memory_in_use_bytes();
  const std::string token = Open(3600);
  {
    SubmitClient client(*stubs_, token);
    client.Allocate(1, 1 << 14);
    for (int i = 0; i < 20; ++i) ASSERT_EQ(client.ReadBack(1).size(), size_t{1} << 14);
    client.Drop();
  }
  SubmitClient client(*stubs_, token);
  client.next_id = 22;
  client.Fence();
  int again = 0;
  for (auto answer = client.Next(); answer->event_case() == v1::SubmitResponse::kData; answer = client.Next()) {
    ++again;
  }
  EXPECT_LE(again, 4);
  EXPECT_GE(again, 3);
  EXPECT_EQ(client.welcome.answers_lost(), 21u - again);
  Close(token);
  ExpectBaseline();
}

TEST_F(SubmitSessionTest, AThousandSessionsLeftWithoutGoodbye) {
  const std::string ones = BytesOf(std::vector<float>(8, 1.0f));
  for (int i = 0; i < 1000; ++i) {
    SubmitClient client(*stubs_, Open(1));
    client.Allocate(1, ones.size());
    client.Write(1, ones);
    client.Execute(InPlace(1), {0});
    if (i % 10 == 0) {
      EXPECT_EQ(FloatsOf(client.ReadBack(1))[7], 2.0f);
    }
    client.Drop();
  }
  ExpectBaseline();
  EXPECT_TRUE(Eventually([&] { return server_->engine().sessions().size() == 0; }));
}

}  // namespace
}  // namespace kiln::e2e
