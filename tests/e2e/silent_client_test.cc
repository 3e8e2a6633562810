// A client whose machine is gone: its connection stays, and nothing comes through it
// any more. What its calls hold comes back all the same.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Carries one connection to a port, both ways, until it is cut; then it holds both
// ends open and carries nothing.
class Wire {
 public:
  explicit Wire(int port) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in here = Loopback(0);
    socklen_t size = sizeof(here);
    EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&here), sizeof(here)), 0);
    EXPECT_EQ(listen(listener_, 1), 0);
    EXPECT_EQ(getsockname(listener_, reinterpret_cast<sockaddr*>(&here), &size), 0);
    address_ = absl::StrCat("127.0.0.1:", ntohs(here.sin_port));
    thread_ = std::thread([this, port] { Carry(port); });
  }
  ~Wire() {
    Cut();
    shutdown(listener_, SHUT_RDWR);  // wakes accept, if nobody came
    thread_.join();
    for (const int end : {listener_, client_, server_}) close(end);
  }

  const std::string& address() const { return address_; }
  void Cut() { cut_ = true; }

 private:
  void Carry(int port) {
    client_ = accept(listener_, nullptr, nullptr);
    server_ = socket(AF_INET, SOCK_STREAM, 0);
    const sockaddr_in there = Loopback(port);
    if (connect(server_, reinterpret_cast<const sockaddr*>(&there), sizeof(there)) != 0) return;
    char bytes[16384];
    pollfd ends[] = {{client_, POLLIN, 0}, {server_, POLLIN, 0}};
    while (!cut_) {
      poll(ends, 2, /*milliseconds=*/10);
      for (int i = 0; i < 2 && !cut_; ++i) {
        if (ends[i].revents == 0) continue;
        const ssize_t got = read(ends[i].fd, bytes, sizeof(bytes));
        if (got <= 0) return;
        for (ssize_t sent = 0; sent < got;) {
          const ssize_t more = send(ends[1 - i].fd, bytes + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
          if (more <= 0) return;
          sent += more;
        }
      }
    }
  }

  int listener_ = -1, client_ = -1, server_ = -1;
  std::string address_;
  std::atomic<bool> cut_{false};
  std::thread thread_;
};

// One byte of an upload that promises `bytes`.
class BegunUpload {
 public:
  BegunUpload(Stubs& stubs, uint64_t handle, uint64_t bytes) : stream_(stubs.buffer->Write(&context_, &response_)) {
    v1::WriteRequest header;
    header.mutable_header()->mutable_buffer()->set_handle(handle);
    header.mutable_header()->set_bytes(bytes);
    EXPECT_TRUE(stream_->Write(header));
    Send("u");
  }
  void Send(const std::string& data) {
    v1::WriteRequest chunk;
    chunk.set_chunk(data);
    EXPECT_TRUE(stream_->Write(chunk));
  }
  absl::Status Finish() {
    stream_->WritesDone();
    return server::FromGrpc(stream_->Finish());
  }
  void Cancel() { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  v1::WriteResponse response_;
  std::unique_ptr<grpc::ClientWriter<v1::WriteRequest>> stream_;
};

TEST_F(ServerTest, AnUploadOfAClientThatIsGoneEnds) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_keepalive_seconds(1);
  Start(config);
  const auto begun = [this](uint64_t handle) {
    return Eventually([&] { return *Download(*stubs_, handle, 0, 1) == "u"; });
  };
  // Silent, but there: it answers pings.
  const uint64_t here = *AllocateBytes(*stubs_, 2);
  BegunUpload live(*stubs_, here, 2);
  ASSERT_TRUE(begun(here));
  const uint64_t in_use = FirstDevice(*stubs_).memory_in_use_bytes();

  constexpr uint64_t kBytes = 8 << 20;
  const uint64_t handle = *AllocateBytes(*stubs_, kBytes);
  Wire wire(server_->port());
  Stubs far(wire.address());
  BegunUpload dead(far, handle, kBytes);
  ASSERT_TRUE(begun(handle));
  ASSERT_TRUE(Free(*stubs_, {handle}).ok());
  EXPECT_GE(FirstDevice(*stubs_).memory_in_use_bytes(), in_use + kBytes);  // held by the upload alone

  wire.Cut();
  EXPECT_TRUE(MemoryReturnsTo(*stubs_, in_use));
  live.Send("v");
  EXPECT_TRUE(live.Finish().ok());
  EXPECT_EQ(*Download(*stubs_, here), "uv");
  dead.Cancel();
  EXPECT_FALSE(dead.Finish().ok());
}

}  // namespace
}  // namespace kiln::e2e
