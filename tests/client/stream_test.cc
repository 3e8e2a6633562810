// The C++ client's stream: values, poison, lost connections, expiry.
#include "client/cpp/stream.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/error.h"
#include "client/cpp/client.h"
#include "tests/e2e/server_fixture.h"
#include "tests/support/delaying_proxy.h"

namespace kiln::client {
namespace {

using e2e::GraphOf;

const HostTensor kOnes = HostTensor::Of<float>({8}, std::vector<float>(8, 1.0f));

class StreamTest : public e2e::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    Connect(absl::ZeroDuration());
  }

  // Through a proxy, which can be cut.
  void Connect(absl::Duration delay, const StreamOptions& options = {}) {
    stream_.reset();
    client_.reset();
    proxy_ = std::make_unique<testing::DelayingProxy>(server_->port(), delay);
    client_ = Client::Connect(proxy_->address()).value();
    add_one_ = std::make_unique<Program>(client_->Compile(GraphOf(e2e::kAddOne)).value());
    in_place_ = std::make_unique<Program>(client_->Compile(GraphOf(e2e::kAddOneInPlace)).value());
    stream_ = client_->OpenStream(options).value();
  }

  static std::vector<float> Floats(std::future<absl::StatusOr<std::string>> read) {
    const auto bytes = read.get();
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    return HostTensor{v1::FLOAT32, {}, bytes.ok() ? *bytes : ""}.Values<float>();
  }
  static v1::ErrorCode CodeOf(const absl::Status& status) {
    const auto detail = DetailOf(status);
    return detail.has_value() ? detail->code() : v1::ERROR_CODE_UNSPECIFIED;
  }

  std::unique_ptr<testing::DelayingProxy> proxy_;
  std::unique_ptr<Client> client_;
  std::unique_ptr<Program> add_one_, in_place_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(StreamTest, CommandsTakeEffectInOrder) {
  const v1::BufferRef x = stream_->Upload(kOnes);
  const v1::BufferRef y = stream_->Execute(*add_one_, Arguments().Set(0, x))[0];
  const auto updated = stream_->Execute(*in_place_, Arguments().Set(0, y));
  ASSERT_EQ(updated.size(), 1u);
  EXPECT_EQ(updated[0].handle(), 0u);
  const v1::BufferRef z = stream_->Allocate(v1::FLOAT32, {8});
  stream_->Copy(y, z, 32);
  const float seven = 7;
  v1::BufferRef rest = z;
  rest.set_offset(16);
  stream_->Fill(rest, {reinterpret_cast<const char*>(&seven), sizeof seven});
  auto part = stream_->Read(stream_->View(rest, v1::FLOAT32, {2}));
  EXPECT_EQ(Floats(stream_->Read(y)), std::vector<float>(8, 3));
  EXPECT_EQ(Floats(stream_->Read(z)), (std::vector<float>{3, 3, 3, 3, 7, 7, 7, 7}));
  EXPECT_EQ(Floats(std::move(part)), (std::vector<float>{7, 7}));
  const auto compiled = stream_->Compile(GraphOf(e2e::kAddOne)).get();
  ASSERT_TRUE(compiled.ok());
  EXPECT_EQ(compiled->graph_hash(), add_one_->hash());
  stream_->Free({x, y, z});
  EXPECT_TRUE(stream_->Fence().get().ok());
}

TEST_F(StreamTest, LargeDataAndMoreThanIsKept) {
  StreamOptions few;
  few.max_commands = 8;
  few.max_bytes = 1 << 20;
  Connect(absl::ZeroDuration(), few);
  std::string bytes(5'000'001, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 + i / 977);
  const v1::BufferRef large = stream_->Allocate(bytes.size());
  stream_->Write(large, bytes);
  const v1::BufferRef x = stream_->Upload(kOnes);
  for (int i = 0; i < 500; ++i) stream_->Execute(*in_place_, Arguments().Set(0, x));
  EXPECT_EQ(Floats(stream_->Read(x)), std::vector<float>(8, 501));
  EXPECT_EQ(stream_->Read(large).get().value(), bytes);
}

TEST_F(StreamTest, TheFirstFailureIsMetWhereItMatters) {
  const v1::BufferRef small = stream_->Allocate(v1::FLOAT32, {3});
  const v1::BufferRef first = stream_->Execute(*add_one_, Arguments().Set(0, small), "layer 1")[0];
  const v1::BufferRef second = stream_->Execute(*add_one_, Arguments().Set(0, first), "layer 2")[0];
  EXPECT_EQ(CodeOf(stream_->Read(second).get().status()), v1::BUFFER_SIZE_MISMATCH);
  EXPECT_EQ(CodeOf(stream_->Fence().get()), v1::BUFFER_SIZE_MISMATCH);
  EXPECT_TRUE(stream_->Fence().get().ok());
  stream_->Free({small});
  stream_->Free({small});
  EXPECT_EQ(CodeOf(stream_->Fence().get()), v1::HANDLE_FREED);
}

TEST_F(StreamTest, AChainIsOneRoundTrip) {
  Connect(absl::Milliseconds(15));
  ASSERT_TRUE(stream_->Fence().get().ok());
  double best = 1e9;
  for (int i = 0; i < 10 && best > 0.045; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    const v1::BufferRef y = stream_->Execute(*add_one_, Arguments().Set(0, stream_->Upload(kOnes)))[0];
    EXPECT_EQ(Floats(stream_->Read(y)), std::vector<float>(8, 2));
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  EXPECT_GE(best, 0.030);
  EXPECT_LT(best, 0.060);
}

TEST_F(StreamTest, EachCommandRunsOnceWhateverBecomesOfTheConnection) {
  const v1::BufferRef x = stream_->Upload(kOnes);
  std::vector<std::future<absl::StatusOr<std::string>>> reads;
  for (int i = 0; i < 300; ++i) {
    stream_->Execute(*in_place_, Arguments().Set(0, x));
    if (i % 50 == 49) reads.push_back(stream_->Read(x));
    if (i % 100 == 30) proxy_->Cut();
  }
  EXPECT_EQ(Floats(stream_->Read(x)), std::vector<float>(8, 301));
  for (size_t i = 0; i < reads.size(); ++i) EXPECT_EQ(Floats(std::move(reads[i]))[0], 1.0f + 50 * (i + 1));
  EXPECT_TRUE(stream_->Fence().get().ok());
}

TEST_F(StreamTest, ASessionThatHasExpiredSaysSo) {
  const v1::BufferRef x = stream_->Upload(kOnes);
  ASSERT_TRUE(stream_->Fence().get().ok());
  ASSERT_TRUE(server_->engine().sessions().Close(stream_->token()).ok());
  // The server ends the stream; until that is heard, commands may still be sent.
  EXPECT_EQ(CodeOf(stream_->Read(x).get().status()), v1::SESSION_EXPIRED);
  EXPECT_EQ(CodeOf(stream_->Fence().get()), v1::SESSION_EXPIRED);
  stream_ = client_->OpenStream().value();
  EXPECT_EQ(Floats(stream_->Read(stream_->Upload(kOnes))), std::vector<float>(8, 1));
}

TEST_F(StreamTest, AServerThatDoesNotComeBackIsGivenUp) {
  StreamOptions brief;
  brief.lease_seconds = 1;
  Connect(absl::ZeroDuration(), brief);
  const v1::BufferRef x = stream_->Upload(kOnes);
  ASSERT_TRUE(stream_->Fence().get().ok());
  proxy_.reset();
  EXPECT_TRUE(absl::IsUnavailable(stream_->Read(x).get().status()));
}

TEST_F(StreamTest, NothingIsLeft) {
  const uint64_t before = e2e::FirstDevice(*stubs_).memory_in_use_bytes();
  for (int i = 0; i < 50; ++i) stream_->Upload(kOnes);
  EXPECT_TRUE(stream_->Fence().get().ok());
  EXPECT_GT(e2e::FirstDevice(*stubs_).memory_in_use_bytes(), before);
  stream_.reset();
  EXPECT_TRUE(e2e::MemoryReturnsTo(*stubs_, before));
}

}  // namespace
}  // namespace kiln::client
