// A request that nobody wants any more ends in the middle, and what it held
// comes back.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "server/engine/engine.h"
#include "tests/e2e/long_run.h"

namespace kiln::e2e {
namespace {

class CancelTest : public ServerTest {
 protected:
  // A program that runs for seconds: a hundred sines of 16 million numbers, in
  // place of nothing.
  void SetUp() override {
    ServerTest::SetUp();
    const auto compiled = Compile(*stubs_, Sines());
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    request_.set_graph_hash(compiled->graph_hash());
    AddBuffer(request_, 0, *AllocateFloats(*stubs_, kLongElements));
    in_use_ = FirstDevice(*stubs_).memory_in_use_bytes();
  }

  server::ProgramStore::Program TheProgram() { return server_->engine().ListPrograms().front(); }

  // Once the server is done with the request: it did not run to its end.
  void ExpectStopped() {
    EXPECT_TRUE(MemoryReturnsTo(*stubs_, in_use_));
    EXPECT_TRUE(server_->Drain(absl::Minutes(1)));
    EXPECT_EQ(TheProgram()->program->single()->runs(), 0u);
  }

  v1::ExecuteRequest request_;
  uint64_t in_use_ = 0;
};

TEST_F(CancelTest, AClientThatCancels) {
  grpc::ClientContext context;
  grpc::Status status;
  std::thread client([&] {
    v1::ExecuteResponse response;
    status = stubs_->kernel->Execute(&context, request_, &response);
  });
  ASSERT_TRUE(Eventually([&] { return TheProgram()->hits == 1; }));
  context.TryCancel();
  client.join();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::CANCELLED);
  ExpectStopped();
}

TEST_F(CancelTest, ADeadlineThatPassesWhileItRuns) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  v1::ExecuteResponse response;
  EXPECT_EQ(stubs_->kernel->Execute(&context, request_, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  ExpectStopped();
}

TEST_F(CancelTest, AnUploadThatBreaksOff) {
  const uint64_t handle = *AllocateBytes(*stubs_, 2 << 20);
  const uint64_t in_use = FirstDevice(*stubs_).memory_in_use_bytes();
  {
    grpc::ClientContext context;
    v1::WriteResponse response;
    const auto stream = stubs_->buffer->Write(&context, &response);
    v1::WriteRequest message;
    message.mutable_header()->mutable_buffer()->set_handle(handle);
    message.mutable_header()->set_bytes(2 << 20);
    ASSERT_TRUE(stream->Write(message));
    message.set_chunk(std::string(1 << 20, 'x'));
    ASSERT_TRUE(stream->Write(message));
    context.TryCancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, in_use));
  ASSERT_TRUE(Free(*stubs_, {handle}).ok());
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, in_use_));
}

TEST_F(CancelTest, ADownloadThatBreaksOff) {
  const uint64_t handle = *AllocateBytes(*stubs_, 64 << 20);
  {
    grpc::ClientContext context;
    v1::ReadRequest request;
    request.mutable_buffer()->set_handle(handle);
    const auto stream = stubs_->buffer->Read(&context, request);
    v1::ReadResponse response;
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.chunk().size(), size_t{1} << 20);
    context.TryCancel();
    while (stream->Read(&response)) {
    }
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  ASSERT_TRUE(Free(*stubs_, {handle}).ok());
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, in_use_));
}

}  // namespace
}  // namespace kiln::e2e
