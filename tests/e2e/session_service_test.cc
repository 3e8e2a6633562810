// SessionService: handles end with the session that owns them, and memory with
// its last user.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/memory/session.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

using v1::SessionService;

class SessionServiceTest : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    before_ = FirstDevice(*stubs_);
  }

  v1::OpenSessionResponse Open(uint32_t lease_seconds, const std::string& resume = "") {
    v1::OpenSessionRequest request;
    request.set_lease_seconds(lease_seconds);
    request.set_resume_token(resume);
    v1::OpenSessionResponse response;
    const absl::Status status = Call(*stubs_->session, &SessionService::Stub::Open, request, response);
    EXPECT_TRUE(status.ok()) << status;
    return response;
  }

  absl::Status Renew(const std::string& token) {
    v1::RenewSessionRequest request;
    request.set_token(token);
    v1::RenewSessionResponse response;
    KILN_RETURN_IF_ERROR(Call(*stubs_->session, &SessionService::Stub::Renew, request, response));
    EXPECT_GT(response.lease_seconds(), 0u);
    return absl::OkStatus();
  }

  absl::Status Close(const std::string& token) {
    v1::CloseSessionRequest request;
    request.set_token(token);
    v1::CloseSessionResponse response;
    return Call(*stubs_->session, &SessionService::Stub::Close, request, response);
  }

  std::unique_ptr<grpc::ClientContext> Under(const std::string& token) {
    auto context = NewContext();
    context->AddMetadata(server::kSessionHeader, token);
    return context;
  }

  absl::StatusOr<uint64_t> AllocateUnder(const std::string& token, uint64_t bytes) {
    v1::AllocateRequest request;
    request.set_bytes(bytes);
    v1::AllocateResponse response;
    KILN_RETURN_IF_ERROR(server::FromGrpc(stubs_->buffer->Allocate(Under(token).get(), request, &response)));
    return response.buffer().handle();
  }

  absl::StatusOr<uint64_t> ViewUnder(const std::string& token, uint64_t of) {
    v1::ViewRequest request;
    request.mutable_of()->set_handle(of);
    v1::ViewResponse response;
    KILN_RETURN_IF_ERROR(server::FromGrpc(stubs_->buffer->View(Under(token).get(), request, &response)));
    return response.buffer().handle();
  }

  // Of eight ones, by value or behind a handle.
  absl::StatusOr<uint64_t> ExecuteUnder(const std::string& token, uint64_t handle = 0) {
    v1::ExecuteRequest request;
    *request.mutable_graph() = GraphOf(kAddOne);
    request.set_result_mode(v1::RESULT_HANDLES);
    if (handle == 0) AddFloats(request, 0, std::vector<float>(8, 1.0f));
    if (handle != 0) AddBuffer(request, 0, handle);
    v1::ExecuteResponse response;
    KILN_RETURN_IF_ERROR(server::FromGrpc(stubs_->kernel->Execute(Under(token).get(), request, &response)));
    return response.results(0).buffer().handle();
  }

  absl::StatusOr<std::string> DownloadUnder(const std::string& token, uint64_t handle) {
    const auto context = Under(token);
    v1::ReadRequest request;
    request.mutable_buffer()->set_handle(handle);
    const auto stream = stubs_->buffer->Read(context.get(), request);
    std::string data;
    v1::ReadResponse response;
    while (stream->Read(&response)) data += response.chunk();
    KILN_RETURN_IF_ERROR(server::FromGrpc(stream->Finish()));
    return data;
  }

  absl::Status UploadUnder(const std::string& token, uint64_t handle, const std::string& data) {
    const auto context = Under(token);
    v1::WriteResponse response;
    const auto stream = stubs_->buffer->Write(context.get(), &response);
    v1::WriteRequest message;
    message.mutable_header()->mutable_buffer()->set_handle(handle);
    message.mutable_header()->set_bytes(data.size());
    stream->Write(message);
    message.set_chunk(data);
    stream->Write(message);
    stream->WritesDone();
    return server::FromGrpc(stream->Finish());
  }

  // One unary call under a session.
  template <typename Request, typename Response>
  absl::Status BufferCall(const std::string& token,
                          grpc::Status (v1::BufferService::Stub::*rpc)(grpc::ClientContext*, const Request&, Response*),
                          const Request& request) {
    Response response;
    const auto context = token.empty() ? NewContext() : Under(token);
    return server::FromGrpc((stubs_->buffer.get()->*rpc)(context.get(), request, &response));
  }

  void ExpectUnknownHandle(const absl::Status& status, uint64_t handle) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::UNKNOWN_HANDLE) << status;
    EXPECT_EQ(detail.handle(), handle) << status;
  }

  void ExpectUnknown(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
    const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::UNKNOWN_HANDLE) << status;
    EXPECT_EQ(detail.field(), server::kSessionHeader) << status;
  }

  void ExpectBaseline() {
    EXPECT_TRUE(MemoryReturnsTo(*stubs_, before_.memory_in_use_bytes()));
    EXPECT_EQ(FirstDevice(*stubs_).buffers(), before_.buffers());
    EXPECT_EQ(server_->engine().buffers().count(), 0u);
  }

  v1::Device before_;
};

TEST_F(SessionServiceTest, CloseFreesEveryKindOfHandle) {
  const std::string token = Open(0).token();
  const uint64_t of_nobody = *AllocateBytes(*stubs_, 100);
  const auto buffer = AllocateUnder(token, 1 << 20);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const auto view = ViewUnder(token, *buffer);
  ASSERT_TRUE(view.ok()) << view.status();
  const auto result = ExecuteUnder(token);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(FloatsOf(*DownloadUnder(token, *result)), std::vector<float>(8, 2.0f));
  EXPECT_EQ(FirstDevice(*stubs_).buffers(), before_.buffers() + 3);  // the view has no memory of its own
  ASSERT_TRUE(Renew(token).ok());

  ASSERT_TRUE(Close(token).ok());
  EXPECT_EQ(server_->engine().buffers().count(), 1u);
  EXPECT_TRUE(Download(*stubs_, of_nobody).ok());
  ASSERT_TRUE(Free(*stubs_, {of_nobody}).ok());
  ExpectBaseline();
  ExpectUnknown(Renew(token));
  ExpectUnknown(Close(token));
}

TEST_F(SessionServiceTest, HandlesAreTheirOwnersAlone) {
  const std::string owner = Open(3600).token();
  const std::string other = Open(3600).token();
  const std::string ones = BytesOf(std::vector<float>(8, 1.0f));
  const uint64_t theirs = *AllocateUnder(owner, ones.size());
  ASSERT_TRUE(UploadUnder(owner, theirs, ones).ok());
  const uint64_t mine = *AllocateUnder(other, ones.size());
  const uint64_t of_nobody = *AllocateBytes(*stubs_, ones.size());

  ExpectUnknownHandle(DownloadUnder(other, theirs).status(), theirs);
  ExpectUnknownHandle(Download(*stubs_, theirs).status(), theirs);
  ExpectUnknownHandle(UploadUnder(other, theirs, ones), theirs);
  ExpectUnknownHandle(Upload(*stubs_, theirs, ones), theirs);
  ExpectUnknownHandle(ViewUnder(other, theirs).status(), theirs);
  ExpectUnknownHandle(ExecuteUnder(other, theirs).status(), theirs);
  v1::CopyRequest copy;
  copy.set_bytes(4);
  for (const bool from : {true, false}) {
    copy.mutable_from()->set_handle(from ? theirs : mine);
    copy.mutable_to()->set_handle(from ? mine : theirs);
    ExpectUnknownHandle(BufferCall(other, &v1::BufferService::Stub::Copy, copy), theirs);
  }
  v1::FillRequest fill;
  fill.mutable_buffer()->set_handle(theirs);
  fill.set_pattern("x");
  v1::DescribeBufferRequest describe;
  describe.set_handle(theirs);
  v1::FreeRequest free;
  free.add_handle(mine);
  free.add_handle(theirs);
  for (const std::string& caller : {other, std::string()}) {
    ExpectUnknownHandle(BufferCall(caller, &v1::BufferService::Stub::Fill, fill), theirs);
    ExpectUnknownHandle(BufferCall(caller, &v1::BufferService::Stub::Describe, describe), theirs);
  }
  ExpectUnknownHandle(BufferCall(other, &v1::BufferService::Stub::Free, free), theirs);

  // Nothing of that touched it; its owner may do all of it, and all may use what nobody owns.
  EXPECT_EQ(*DownloadUnder(owner, theirs), ones);
  EXPECT_TRUE(ExecuteUnder(owner, theirs).ok());
  EXPECT_TRUE(BufferCall(owner, &v1::BufferService::Stub::Describe, describe).ok());
  copy.mutable_from()->set_handle(theirs);
  copy.mutable_to()->set_handle(of_nobody);
  copy.set_bytes(ones.size());
  EXPECT_TRUE(BufferCall(owner, &v1::BufferService::Stub::Copy, copy).ok());
  EXPECT_EQ(*DownloadUnder(other, of_nobody), ones);
  EXPECT_TRUE(BufferCall(owner, &v1::BufferService::Stub::Fill, fill).ok());
  EXPECT_EQ(*DownloadUnder(owner, theirs), std::string(ones.size(), 'x'));
  free.clear_handle();
  free.add_handle(theirs);
  free.add_handle(of_nobody);
  EXPECT_TRUE(BufferCall(owner, &v1::BufferService::Stub::Free, free).ok());
  ASSERT_TRUE(Close(owner).ok());
  ASSERT_TRUE(Close(other).ok());
  ExpectBaseline();
}

TEST_F(SessionServiceTest, AnUnknownTokenIsRefusedByEveryCall) {
  for (const std::string& token : {std::string(16, 'x'), std::string(), std::string(1000, '\0')}) {
    ExpectUnknown(AllocateUnder(token, 8).status());
    ExpectUnknown(ExecuteUnder(token).status());
    ExpectUnknown(Renew(token));
    ExpectUnknown(Close(token));
    {
      const auto context = Under(token);
      const auto stream = stubs_->buffer->Read(context.get(), v1::ReadRequest());
      v1::ReadResponse response;
      EXPECT_FALSE(stream->Read(&response));
      ExpectUnknown(server::FromGrpc(stream->Finish()));
    }
    {
      const auto context = Under(token);
      v1::WriteResponse response;
      const auto stream = stubs_->buffer->Write(context.get(), &response);
      stream->WritesDone();
      ExpectUnknown(server::FromGrpc(stream->Finish()));
    }
  }
  ExpectBaseline();
}

TEST_F(SessionServiceTest, ALeaseThatRunsOutGivesTheMemoryBack) {
  const v1::OpenSessionResponse opened = Open(1);
  EXPECT_EQ(opened.lease_seconds(), 1u);
  ASSERT_TRUE(AllocateUnder(opened.token(), 32 << 20).ok());
  ExpectBaseline();
  ExpectUnknown(AllocateUnder(opened.token(), 8).status());
}

TEST_F(SessionServiceTest, ALiveSessionIsTakenUpAgain) {
  const std::string token = Open(3600).token();
  const uint64_t buffer = *AllocateUnder(token, 8);
  const v1::OpenSessionResponse again = Open(60, token);
  EXPECT_TRUE(again.resumed());
  EXPECT_EQ(again.token(), token);
  EXPECT_EQ(again.lease_seconds(), 60u);
  EXPECT_TRUE(DownloadUnder(token, buffer).ok());
  ASSERT_TRUE(Close(token).ok());
  const v1::OpenSessionResponse anew = Open(60, token);
  EXPECT_FALSE(anew.resumed());
  EXPECT_NE(anew.token(), token);
  ExpectBaseline();
}

TEST_F(SessionServiceTest, AnUploadOutlivesItsSession) {
  constexpr uint64_t kBytes = 2 << 20;
  const std::string token = Open(0).token();
  const uint64_t handle = *AllocateUnder(token, kBytes);
  const auto context = Under(token);
  v1::WriteResponse response;
  const auto stream = stubs_->buffer->Write(context.get(), &response);
  v1::WriteRequest message;
  message.mutable_header()->mutable_buffer()->set_handle(handle);
  message.mutable_header()->set_bytes(kBytes);
  ASSERT_TRUE(stream->Write(message));
  // Once its header is read, the upload holds the memory; seen from the outside
  // when a chunk has come through.
  message.set_chunk(std::string(kBytes / 2, 'x'));
  ASSERT_TRUE(stream->Write(message));
  ASSERT_TRUE(Eventually([&] { return DownloadUnder(token, handle).value_or(" ")[0] == 'x'; }));

  ASSERT_TRUE(Close(token).ok());
  EXPECT_EQ(server_->engine().buffers().count(), 0u);
  EXPECT_GE(FirstDevice(*stubs_).memory_in_use_bytes(), before_.memory_in_use_bytes() + kBytes);
  ASSERT_TRUE(stream->Write(message));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  EXPECT_EQ(response.bytes(), kBytes);
  ExpectBaseline();
}

TEST_F(SessionServiceTest, AnExecuteOutlivesItsSessionAndLeavesNothing) {
  constexpr int64_t kElements = 4 << 20;
  constexpr int kSines = 20;
  std::string text = absl::StrCat("0 CONST [] weakint ", kElements, "\n1 PARAM : float32 [0] slot=0\n");
  for (int i = 1; i <= kSines; ++i) absl::StrAppend(&text, i + 1, " SIN [", i, "]\n");
  absl::StrAppend(&text, kSines + 2, " TUPLE [", kSines + 1, "]\n");
  const auto compiled = Compile(*stubs_, GraphOf(text));
  ASSERT_TRUE(compiled.ok()) << compiled.status();

  const std::string token = Open(3600).token();
  v1::ExecuteRequest request;
  request.set_graph_hash(compiled->graph_hash());
  request.set_result_mode(v1::RESULT_HANDLES);
  AddBuffer(request, 0, *AllocateUnder(token, kElements * sizeof(float)));
  v1::ExecuteResponse response;
  absl::Status executed;
  std::thread client(
      [&] { executed = server::FromGrpc(stubs_->kernel->Execute(Under(token).get(), request, &response)); });
  ASSERT_TRUE(Eventually([&] { return server_->engine().ListPrograms().front()->hits == 1; }));
  ASSERT_TRUE(Close(token).ok());
  client.join();
  // It may have been done already; then its result went with the session.
  if (!executed.ok()) ExpectUnknown(executed);
  ExpectBaseline();
}

TEST_F(SessionServiceTest, ManySessionsLeftWithoutGoodbye) {
  for (int i = 0; i < 200; ++i) {
    const std::string token = Open(1).token();
    ASSERT_TRUE(AllocateUnder(token, 64 << 10).ok());
  }
  ExpectBaseline();
  EXPECT_TRUE(Eventually([&] { return server_->engine().sessions().size() == 0; }));
}

TEST_F(SessionServiceTest, TheServerEndsWithSessionsOpen) {
  const std::string token = Open(3600).token();
  ASSERT_TRUE(AllocateUnder(token, 1 << 20).ok());
  EXPECT_TRUE(server_->Drain(absl::Minutes(1)));
  server_.reset();
}

TEST_F(SessionServiceTest, IsAFeature) {
  v1::ListDevicesResponse response;
  ASSERT_TRUE(Call(*stubs_->device, &v1::DeviceService::Stub::List, v1::ListDevicesRequest(), response).ok());
  EXPECT_EQ(std::count(response.features().begin(), response.features().end(), "sessions"), 1);
}

}  // namespace
}  // namespace kiln::e2e
