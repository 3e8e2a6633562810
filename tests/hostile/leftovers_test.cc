// What another client left in device memory is not to be seen: not by a read that waits behind
// a run which fails, nor in memory that is given out anew.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/memory/session.h"
#include "tests/e2e/long_run.h"
#include "tests/e2e/submit/submit_client.h"

namespace kiln::e2e {
namespace {

constexpr char kSecret = '\xa5';

class LeftoversTest : public ServerTest {
 protected:
  // As many bytes as a result of Sines() has, and given back: the next who wants so many gets these.
  void LeaveASecret() {
    const uint64_t handle = *AllocateFloats(*stubs_, kLongElements);
    v1::FillRequest fill;
    fill.mutable_buffer()->set_handle(handle);
    fill.set_pattern(std::string(1, kSecret));
    v1::FillResponse filled;
    ASSERT_TRUE(Call(*stubs_->buffer, &v1::BufferService::Stub::Fill, fill, filled).ok());
    ASSERT_TRUE(Free(*stubs_, {handle}).ok());
  }

  struct Got {
    absl::Status status;
    int64_t bytes = 0;
    int64_t secret = 0;
  };
  Got ReadUnder(const std::string& token, uint64_t handle) {
    const auto context = NewContext();
    context->AddMetadata(server::kSessionHeader, token);
    v1::ReadRequest request;
    request.mutable_buffer()->set_handle(handle);
    const auto stream = stubs_->buffer->Read(context.get(), request);
    Got got;
    v1::ReadResponse response;
    while (stream->Read(&response)) {
      got.bytes += static_cast<int64_t>(response.chunk().size());
      got.secret += std::count(response.chunk().begin(), response.chunk().end(), kSecret);
    }
    got.status = server::FromGrpc(stream->Finish());
    return got;
  }
};

TEST_F(LeftoversTest, AReadBehindARunThatFailsSeesNothingOfThem) {
  const v1::Graph sines = Sines();
  const std::string hash = Compile(*stubs_, sines)->graph_hash();
  const uint64_t input = *AllocateFloats(*stubs_, kLongElements);
  v1::OpenSessionRequest open;
  v1::OpenSessionResponse opened;
  ASSERT_TRUE(Call(*stubs_->session, &v1::SessionService::Stub::Open, open, opened).ok());
  LeaveASecret();

  SubmitClient stream(*stubs_, opened.token());
  v1::ExecuteRequest execute;
  execute.set_graph_hash(hash);
  AddBuffer(execute, 0, input);
  stream.Execute(execute, {7});
  // The result has its memory, and is being computed.
  const auto session = *server_->engine().sessions().Find(opened.token());
  const auto& table = server_->engine().buffers().table();
  ASSERT_TRUE(Eventually([&] { return table.Find(7, session.get()).ok(); }));
  std::vector<Got> got(4);
  std::vector<std::thread> readers;
  for (Got& each : got) readers.emplace_back([&] { each = ReadUnder(opened.token(), 7); });
  const auto& device = server_->engine().devices().front();
  ASSERT_TRUE(Eventually([&] { return device->stats().queue_depth >= 1 + got.size(); }));
  // Its end stops the run, and no read that waits behind it.
  v1::CloseSessionRequest close;
  close.set_token(opened.token());
  v1::CloseSessionResponse closed;
  ASSERT_TRUE(Call(*stubs_->session, &v1::SessionService::Stub::Close, close, closed).ok());
  for (std::thread& reader : readers) reader.join();
  for (const Got& each : got) {
    EXPECT_FALSE(each.status.ok());
    EXPECT_EQ(each.secret, 0) << "of " << each.bytes;
  }
}

TEST_F(LeftoversTest, MemoryThatIsGivenOutAnewIsZero) {
  LeaveASecret();
  for (const uint64_t bytes : {uint64_t{4} * kLongElements, uint64_t{4} * kLongElements - 256}) {
    const uint64_t handle = *AllocateBytes(*stubs_, bytes);
    const std::string data = *Download(*stubs_, handle);
    EXPECT_EQ(data.size(), bytes);
    EXPECT_EQ(std::count(data.begin(), data.end(), '\0'), static_cast<int64_t>(bytes));
    ASSERT_TRUE(Free(*stubs_, {handle}).ok());
    LeaveASecret();
  }
}

}  // namespace
}  // namespace kiln::e2e
