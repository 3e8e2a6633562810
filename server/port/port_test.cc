#include "server/port/port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

int ConnectTo(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return connection;
  close(connection);
  return -1;
}

// Whether the other side has closed it, once it has done anything.
bool IsClosed(int connection) {
  char byte;
  return recv(connection, &byte, 1, 0) <= 0;
}

class PortTest : public testing::Test {
 protected:
  void Open(const std::string& listen, Connections::Limits limits) {
    auto port = Port::Open(listen, limits, log_);
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
    port_->Start([this](int, int connection) {
      absl::MutexLock lock(&mutex_);
      came_.push_back(connection);
    });
  }
  void TearDown() override {
    port_.reset();
    absl::MutexLock lock(&mutex_);
    for (const int connection : came_) close(connection);
  }

  // The next connection that was handed over.
  int Next() {
    absl::MutexLock lock(&mutex_);
    const auto some = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !came_.empty(); };
    mutex_.Await(absl::Condition(&some));
    const int connection = came_.front();
    came_.pop_front();
    return connection;
  }

  const std::shared_ptr<spdlog::logger> log_ =
      std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  std::unique_ptr<Port> port_;
  absl::Mutex mutex_;
  std::deque<int> came_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(PortTest, HandsConnectionsOver) {
  Open("127.0.0.1:0", {8, 8});
  EXPECT_GT(port_->port(), 0);
  const int client = ConnectTo(port_->port());
  const int server = Next();
  EXPECT_EQ(PeerAddress(server), "127.0.0.1");
  EXPECT_FALSE(PeerUser(server).has_value());
  ASSERT_EQ(write(server, "x", 1), 1);
  char byte = 0;
  EXPECT_EQ(recv(client, &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
  close(client);
  close(server);
}

TEST_F(PortTest, TooManyAreClosedAndARoomThatIsLeftIsUsedAgain) {
  Open("127.0.0.1:0", {3, 8});
  std::vector<int> clients, servers;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(ConnectTo(port_->port()));
    servers.push_back(Next());
  }
  for (int i = 0; i < 20; ++i) {
    const int refused = ConnectTo(port_->port());
    EXPECT_TRUE(IsClosed(refused));
    close(refused);
  }
  // gRPC closes one and says nothing.
  close(servers[1]);
  clients.push_back(ConnectTo(port_->port()));
  servers[1] = Next();
  const int refused = ConnectTo(port_->port());
  EXPECT_TRUE(IsClosed(refused));
  close(refused);
  for (const int each : clients) close(each);
  for (const int each : servers) close(each);
}

TEST_F(PortTest, OneAddressMayNotTakeAll) {
  Open("127.0.0.1:0", {8, 2});
  std::vector<int> clients, servers;
  for (int i = 0; i < 2; ++i) {
    clients.push_back(ConnectTo(port_->port()));
    servers.push_back(Next());
  }
  const int refused = ConnectTo(port_->port());
  EXPECT_TRUE(IsClosed(refused));
  close(refused);
  for (const int each : clients) close(each);
  for (const int each : servers) close(each);
}

TEST_F(PortTest, WithoutDescriptorsItRefusesAndGoesOn) {
  Open("127.0.0.1:0", {1 << 20, 1 << 20});
  // One client and its other side; the next client then takes the last descriptor.
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int client = ConnectTo(port_->port());
  const int server = Next();
  const int last = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(last) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port_->port()));
  inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
  EXPECT_EQ(connect(last, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_TRUE(IsClosed(last));
  close(last);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  const int again = ConnectTo(port_->port());
  close(Next());
  close(again);
  close(client);
  close(server);
}

// As gRPC closes a connection, with a request unread: what was sent would be lost if it had not arrived.
TEST_F(PortTest, WhatWasSentArrivesBeforeTheEnd) {
  Open("127.0.0.1:0", {8, 8});
  const int client = ConnectTo(port_->port());
  const int server = Next();
  ASSERT_EQ(write(client, "unread", 6), 6);
  ASSERT_EQ(fcntl(server, F_SETFL, O_NONBLOCK), 0);
  const std::string part(1 << 16, 'a');
  size_t sent = 0;
  for (ssize_t wrote = 1; wrote > 0; sent += static_cast<size_t>(std::max<ssize_t>(wrote, 0)))
    wrote = send(server, part.data(), part.size(), MSG_NOSIGNAL);
  port_->Stop();
  EXPECT_FALSE(port_->HangUp(absl::ZeroDuration())) << "nobody has read that";
  EXPECT_EQ(send(server, "b", 1, MSG_NOSIGNAL), -1) << "nothing comes after it";
  std::thread hangs_up([&] {
    EXPECT_TRUE(port_->HangUp(absl::Minutes(1)));
    close(server);
  });
  size_t received = 0;
  std::string got(1 << 16, '\0');
  for (ssize_t read = 1; read > 0; received += static_cast<size_t>(std::max<ssize_t>(read, 0)))
    read = recv(client, got.data(), got.size(), 0);
  EXPECT_EQ(received, sent);
  hangs_up.join();
  close(client);
}

TEST_F(PortTest, ADescriptorThatIsAnothersByNowIsLeftAlone) {
  Open("127.0.0.1:0", {8, 8});
  const int client = ConnectTo(port_->port());
  const int server = Next();
  int others[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, others), 0);
  ASSERT_EQ(dup2(others[0], server), server);
  port_->Stop();
  EXPECT_TRUE(port_->HangUp(absl::Minutes(1)));
  EXPECT_EQ(send(server, "x", 1, MSG_NOSIGNAL), 1);
  for (const int each : {client, server, others[0], others[1]}) close(each);
}

TEST_F(PortTest, UnixSockets) {
  // The address of a socket is short; a test's own folder has a long name.
  char folder[] = "/tmp/kiln_port_XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const std::string path = absl::StrCat(folder, "/port.sock");
  const auto connect_to = [&path] {
    const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) return connection;
    close(connection);
    return -1;
  };
  Open("unix:" + path, {8, 8});
  EXPECT_EQ(port_->port(), 0);
  const int client = connect_to();
  const int server = Next();
  EXPECT_EQ(PeerAddress(server), "unix");
  EXPECT_EQ(PeerUser(server), std::optional<uint32_t>(getuid()));
  close(client);
  close(server);
  port_.reset();
  EXPECT_EQ(access(path.c_str(), F_OK), -1);
  // What a server that was killed left is no hindrance; a file of another kind is one.
  const int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(left, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(left);
  EXPECT_TRUE(Port::Open("unix:" + path, {8, 8}, log_).ok());
  // Others may connect as far as they are let in, whatever the process makes of its other files.
  const mode_t before = umask(0077);
  for (const mode_t wanted : {0666, 0660, 0600}) {
    const auto port = Port::Open("unix:" + path, {8, 8}, log_, {wanted, {}});
    ASSERT_TRUE(port.ok()) << port.status();
    struct stat file = {};
    ASSERT_EQ(stat(path.c_str(), &file), 0);
    EXPECT_EQ(file.st_mode & 07777, wanted);
  }
  EXPECT_EQ(umask(before), 0077u);
  close(creat(path.c_str(), 0600));
  EXPECT_FALSE(Port::Open("unix:" + path, {8, 8}, log_).ok());
  unlink(path.c_str());
  rmdir(folder);
}

// What is accepted is the probe's, and nobody's to hand over; a port that is full accepts all the same.
TEST_F(PortTest, APortIsAskedByASocketOfItsOwn) {
  for (const char* listen : {"127.0.0.1:0", "0.0.0.0:0", "localhost:0", "unix-abstract:kiln_port_test"}) {
    Open(listen, {1, 1});
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(port_->Accepts(absl::Minutes(1))) << listen;
    absl::MutexLock lock(&mutex_);
    EXPECT_TRUE(came_.empty()) << listen;
  }
  Open("127.0.0.1:0", {1, 1});
  const int client = ConnectTo(port_->port());
  const int server = Next();
  EXPECT_TRUE(port_->Accepts(absl::Minutes(1)));
  const int refused = ConnectTo(port_->port());
  EXPECT_TRUE(IsClosed(refused));
  for (const int each : {client, server, refused}) close(each);
}

TEST_F(PortTest, AThreadThatAcceptsNobodyIsNoticed) {
  absl::Notification entered, leave;
  auto port = Port::Open("127.0.0.1:0", {8, 8}, log_);
  ASSERT_TRUE(port.ok()) << port.status();
  (*port)->Start([&](int, int connection) {
    if (!entered.HasBeenNotified()) entered.Notify();
    leave.WaitForNotification();
    close(connection);
  });
  const int client = ConnectTo((*port)->port());
  entered.WaitForNotification();
  // The system takes the connection; nobody does.
  EXPECT_FALSE((*port)->Accepts(absl::Milliseconds(50)));
  leave.Notify();
  EXPECT_TRUE((*port)->Accepts(absl::Minutes(1)));
  close(client);
}

TEST_F(PortTest, AnAddressThatCannotBeHadIsNamed) {
  Open("127.0.0.1:0", {8, 8});
  const std::string taken = absl::StrCat("127.0.0.1:", port_->port());
  for (const std::string& listen : {taken, std::string("no.such.host.invalid:1"), std::string("unix:"),
                                    std::string("unix:/nonexistent/socket"), std::string("127.0.0.1:x")}) {
    const auto port = Port::Open(listen, {8, 8}, log_);
    ASSERT_FALSE(port.ok()) << listen;
    EXPECT_TRUE(absl::IsUnavailable(port.status()));
    EXPECT_TRUE(absl::StrContains(port.status().message(), listen)) << port.status();
  }
}

TEST_F(PortTest, LocalhostIsOnePortOfEachKindOfAddress) {
  Open("localhost:0", {8, 8});
  close(ConnectTo(port_->port()));
  close(Next());
}

TEST(MaxConnections, LeavesDescriptorsToTheProcess) {
  rlimit limit = {};
  const size_t connections = MaxConnections();
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_GT(connections, 0u);
  EXPECT_LT(connections, limit.rlim_cur);
}

}  // namespace
}  // namespace kiln::server
