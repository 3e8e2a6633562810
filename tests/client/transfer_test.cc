// The C++ client's uploads and downloads against a whole server: through a socket, and
// through memory that both have mapped.
#include <gtest/gtest.h>
#include <spdlog/sinks/null_sink.h>

#include <algorithm>
#include <string>

#include "client/cpp/client.h"
#include "server/config.h"
#include "server/server.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::client {
namespace {

constexpr uint64_t kPiece = 4 << 20;  // of shared memory (client/cpp/transport/shared_memory.cc)

std::string Noise(uint64_t bytes) {
  std::string text(bytes, '\0');
  for (uint64_t i = 0; i < bytes; ++i) text[i] = static_cast<char>((i + bytes) * 0x9E3779B97F4A7C15u >> 56);
  return text;
}

class TransferTest : public e2e::ServerTest {
 protected:
  void SetUp() override {
    v1::ServerConfig config = server::DefaultConfig();
    config.mutable_shared_memory()->set_max_bytes(64 << 20);
    Start(std::move(config));
  }

  std::unique_ptr<Client> Connect(bool shared_memory) {
    ClientOptions options;
    options.shared_memory = shared_memory;
    return Client::Connect(address(), options).value();
  }

  // Sent and received.
  static uint64_t Wire(const Client& client) {
    uint64_t bytes = 0;
    for (const auto& [name, row] : client.traffic()) bytes += row.sent_bytes + row.received_bytes;
    return bytes;
  }
};

TEST_F(TransferTest, BytesArriveAndComeBack) {
  for (const bool shared : {false, true}) {
    const auto client = Connect(shared);
    EXPECT_STREQ(client->transport(), shared ? "shared memory" : "tcp");
    for (const uint64_t size : {uint64_t{0}, uint64_t{1}, kPiece - 1, kPiece, kPiece + 1, 2 * kPiece, 3 * kPiece + 5}) {
      const std::string data = Noise(size);
      const auto buffer = client->Allocate(size + 7);
      ASSERT_TRUE(buffer.ok()) << buffer.status();
      const uint64_t before = Wire(*client);
      ASSERT_TRUE(client->Write(*buffer, data, 3).ok());
      if (shared) {
        EXPECT_LT(Wire(*client) - before, 1024u);
      }
      const auto back = client->Read(*buffer, 3, size);
      ASSERT_TRUE(back.ok()) << back.status();
      // A size of 0 means: to the end.
      EXPECT_TRUE(size == 0 ? *back == std::string(4, '\0') : *back == data) << size;
      const auto all = client->Read(*buffer);
      ASSERT_TRUE(all.ok()) << all.status();
      EXPECT_TRUE(*all == std::string(3, '\0') + data + std::string(4, '\0')) << size;
    }
  }
}

TEST_F(TransferTest, SharedBytesAreMovedAsTheyLie) {
  const auto client = Connect(true);
  const std::string data = Noise(3 * kPiece);
  const auto shared = client->AllocateShared(data.size());
  ASSERT_TRUE(shared.ok()) << shared.status();
  const absl::Span<char> mine = (*shared)->span();
  std::copy(data.begin(), data.end(), mine.begin());
  const auto buffer = client->Allocate(data.size());
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const uint64_t calls = client->traffic().at("MapSharedMemory").calls;
  ASSERT_TRUE(client->Write(*buffer, absl::string_view(mine.data(), mine.size())).ok());
  EXPECT_EQ(client->traffic().at("Copy").calls, 1u);
  EXPECT_TRUE(*client->Read(*buffer) == data);
  // A part of it, to another place.
  ASSERT_TRUE(client->ReadInto(*buffer, mine.subspan(100, 50), 1000).ok());
  EXPECT_EQ(std::string(mine.data() + 100, 50), data.substr(1000, 50));
  EXPECT_EQ(std::string(mine.data() + 150, 50), data.substr(150, 50));
  EXPECT_EQ(client->traffic().at("MapSharedMemory").calls, calls);
}

TEST_F(TransferTest, FailuresAreTheServers) {
  for (const bool shared : {false, true}) {
    const auto client = Connect(shared);
    const auto buffer = client->Allocate(100);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ(client->Write(*buffer, Noise(101)).code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(client->Write(*buffer, Noise(2 * kPiece), 50).code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(client->Read(*buffer, 50, 51).status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_EQ(client->Read(*buffer, 101).status().code(), absl::StatusCode::kOutOfRange);
    EXPECT_TRUE(client->ReadInto(*buffer, {}, 100).ok());
    EXPECT_EQ(client->ReadInto(*buffer, {}, 101).code(), absl::StatusCode::kOutOfRange);
    // And it goes on.
    EXPECT_TRUE(client->Write(*buffer, Noise(100)).ok());
    EXPECT_EQ(*client->Read(*buffer), Noise(100));
  }
}

TEST_F(TransferTest, ACallWithADeadlineSendsTheSame) {
  ClientOptions options;
  options.shared_memory = false;
  options.call_timeout = absl::Minutes(5);
  const auto client = Client::Connect(address(), options).value();
  const std::string data = Noise(kPiece);
  const auto buffer = client->Allocate(data.size());
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(client->Write(*buffer, data).ok());
  EXPECT_TRUE(*client->Read(*buffer) == data);
}

TEST_F(TransferTest, AnotherServerAtTheSameAddressHasNothingMapped) {
  const auto client = Connect(true);
  EXPECT_STREQ(client->transport(), "shared memory");
  v1::ServerConfig config = server::DefaultConfig();
  config.set_listen(address());
  config.mutable_shared_memory()->set_max_bytes(64 << 20);
  server_.reset();
  auto log = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  server_ = server::StartServer(config, std::move(log)).value();
  absl::StatusOr<DeviceBuffer> buffer;
  do buffer = client->Allocate(100);  // until the channel has found it
  while (absl::IsUnavailable(buffer.status()));
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  ASSERT_TRUE(client->Write(*buffer, Noise(100)).ok());
  EXPECT_EQ(*client->Read(*buffer), Noise(100));
  EXPECT_STREQ(client->transport(), "tcp");
}

TEST_F(TransferTest, WhereThereIsNoRoomASocketDoesIt) {
  const auto client = Connect(true);
  EXPECT_EQ(client->AllocateShared(65 << 20).status().code(), absl::StatusCode::kResourceExhausted);
  const auto most = client->AllocateShared(56 << 20);  // beside the pieces
  ASSERT_TRUE(most.ok()) << most.status();
  const auto second = Connect(true);
  EXPECT_STREQ(second->transport(), "tcp");
  EXPECT_EQ(second->AllocateShared(1).status().code(), absl::StatusCode::kUnimplemented);
  const auto buffer = second->Allocate(10);
  ASSERT_TRUE(buffer.ok());
  ASSERT_TRUE(second->Write(*buffer, "0123456789").ok());
  EXPECT_EQ(*second->Read(*buffer), "0123456789");
}

}  // namespace
}  // namespace kiln::client
