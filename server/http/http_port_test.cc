// The port against a client that writes bytes as it likes.
#include "server/http/http_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <spdlog/sinks/null_sink.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/http/http_status.h"

namespace kiln::server {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(60);

// Answers with what it was sent. "/wait" is answered when Answer() says so.
class Echo final : public HttpService {
 public:
  std::optional<HttpAnswer> Refuse(const HttpRequest& head) override {
    if (head.target == "/none") return ErrorAnswer(404, "none");
    return std::nullopt;
  }
  std::function<void()> Answer(HttpRequest request, Done done) override {
    ++asked;
    if (request.target != "/wait") {
      HttpAnswer answer;
      answer.body = absl::StrCat(request.method, " ", request.target, " ", request.body);
      done(std::move(answer));
      return [] {};
    }
    absl::MutexLock lock(&mutex);
    waiting = std::move(done);
    has_come.Notify();
    return [this] { cancelled.Notify(); };
  }
  void AnswerWaiting(std::string body) {
    absl::MutexLock lock(&mutex);
    HttpAnswer answer;
    answer.body = std::move(body);
    waiting(std::move(answer));
  }

  std::atomic<int> asked{0};
  absl::Notification has_come, cancelled;
  absl::Mutex mutex;
  Done waiting;
};

class Client {
 public:
  explicit Client(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval limit = {60, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~Client() { Close(); }
  void Close() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }

  bool connected() const { return connected_; }
  void Send(absl::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // it has been told off
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  // One answer: its head, then its body.
  std::pair<std::string, std::string> Read() {
    size_t end;
    while ((end = read_.find("\r\n\r\n")) == std::string::npos) {
      if (!More()) return {};
    }
    std::string head = read_.substr(0, end + 2);
    read_.erase(0, end + 4);
    size_t length = 0;
    for (const absl::string_view line : absl::StrSplit(head, "\r\n")) {
      if (absl::StartsWithIgnoreCase(line, "content-length: ")) EXPECT_TRUE(absl::SimpleAtoi(line.substr(16), &length));
    }
    while (read_.size() < length && More()) {
    }
    std::string body = read_.substr(0, length);
    read_.erase(0, length);
    return {head, body};
  }
  int Status() {
    int status = 0;
    const std::string head = Read().first;
    EXPECT_TRUE(absl::SimpleAtoi(head.substr(0, 12).substr(std::min<size_t>(9, head.size())), &status)) << head;
    return status;
  }
  // Whether the connection has ended, with nothing more sent.
  bool HasEnded() { return read_.empty() && !More(); }

 private:
  bool More() {
    char bytes[4096];
    const ssize_t got = recv(socket_, bytes, sizeof(bytes), 0);
    if (got > 0) read_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  int socket_;
  bool connected_ = false;
  std::string read_;
};

class HttpPortTest : public testing::Test {
 protected:
  void Start(uint64_t max_body_bytes = 1 << 20, uint64_t max_bytes = 1 << 24, size_t connections = 1000) {
    auto service = std::make_unique<Echo>();
    service_ = service.get();
    HttpPortOptions options;
    options.listen = "127.0.0.1:0";
    options.connections = {connections, connections};
    options.max_body_bytes = max_body_bytes;
    options.max_bytes = max_bytes;
    auto log = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
    auto port = HttpPort::Open(options, std::move(service), std::move(log));
    ASSERT_TRUE(port.ok()) << port.status();
    port_ = *std::move(port);
  }
  // Whether nothing is kept any more.
  bool NothingIsKept() {
    for (const absl::Time end = absl::Now() + kPatience; absl::Now() < end; absl::SleepFor(absl::Milliseconds(1))) {
      if (port_->bytes() == 0) return true;
    }
    return false;
  }

  Echo* service_ = nullptr;
  std::unique_ptr<HttpPort> port_;
};

TEST_F(HttpPortTest, AConnectionIsKeptForTheNextRequest) {
  Start();
  Client client(port_->port());
  client.Send("POST /a HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
  auto [head, body] = client.Read();
  EXPECT_EQ(head.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_EQ(body, "POST /a abc");
  client.Send("GET /b HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.Read().second, "GET /b ");
  client.Send("GET /c HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(client.Read().second, "GET /c ");
  EXPECT_TRUE(client.HasEnded());
}

TEST_F(HttpPortTest, ARequestMayComeByteByByteAndTwoAtOnce) {
  Start();
  Client client(port_->port());
  for (const char byte : absl::string_view("POST /a HTTP/1.1\r\nContent-Length: 2\r\n\r\nxy"))
    client.Send(absl::string_view(&byte, 1));
  EXPECT_EQ(client.Read().second, "POST /a xy");
  client.Send("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.Read().second, "GET /1 ");
  EXPECT_EQ(client.Read().second, "GET /2 ");
}

TEST_F(HttpPortTest, HeadsThatAreNotTakenAreToldWhyAndNothingIsReadAfterThem) {
  Start();
  const struct {
    std::string sent;
    int status;
  } rows[] = {
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 411},
      {"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Encoding: gzip\r\n\r\nabc", 415},
      {"POST / HTTP/1.1\r\nContent-Length: 1048577\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400},
      {"POST /none HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", 404},
      {"GET / HTTP/1.1\r\nA: " + std::string(20 << 10, 'a') + "\r\n\r\n", 431},
      {"GET / HTTP/9.9\r\n\r\n", 400},
      {"nonsense\r\n\r\n", 400},
      {std::string("\0\0\0\0\r\n\r\n", 8), 400},
      {"GET / HTTP/1.1\r\nAuthorization: a\r\nAuthorization: b\r\nContent-Length: 1\r\n\r\nx", 400},
  };
  for (const auto& row : rows) {
    Client client(port_->port());
    client.Send(row.sent);
    EXPECT_EQ(client.Status(), row.status) << row.sent.substr(0, 80);
    EXPECT_TRUE(client.HasEnded()) << row.sent.substr(0, 80);
  }
  EXPECT_EQ(service_->asked, 0);
}

TEST_F(HttpPortTest, WhoAsksFirstIsToldToGoOn) {
  Start();
  Client client(port_->port());
  client.Send("POST /a HTTP/1.1\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.Read().first, "HTTP/1.1 100 Continue\r\n");
  client.Send("abc");
  EXPECT_EQ(client.Read().second, "POST /a abc");
}

TEST_F(HttpPortTest, AnAnswerToHeadHasNoBody) {
  Start();
  Client client(port_->port());
  client.Send("HEAD /none HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\n\r\n");
  EXPECT_EQ(client.Status(), 404);
  EXPECT_EQ(client.Read().second, "GET /b ");
}

TEST_F(HttpPortTest, BodiesThatDoNotComeWholeLeaveNothing) {
  Start();
  {
    Client client(port_->port());
    client.Send(absl::StrCat("POST /a HTTP/1.1\r\nContent-Length: 500000\r\n\r\n", std::string(400000, 'x')));
    while (port_->bytes() == 0) absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_TRUE(NothingIsKept());
  EXPECT_EQ(service_->asked, 0);
}

TEST_F(HttpPortTest, BodiesOfAllTogetherAreBounded) {
  Start(/*max_body_bytes=*/1 << 20, /*max_bytes=*/100000);
  Client client(port_->port());
  client.Send(absl::StrCat("POST /a HTTP/1.1\r\nContent-Length: 200000\r\n\r\n", std::string(200000, 'x')));
  auto [head, body] = client.Read();
  EXPECT_TRUE(absl::StartsWith(head, "HTTP/1.1 503 ")) << head;
  EXPECT_TRUE(absl::StrContains(head, "Retry-After: 1\r\n")) << head;
  EXPECT_TRUE(NothingIsKept());
  Client other(port_->port());
  other.Send(absl::StrCat("POST /a HTTP/1.1\r\nContent-Length: 50000\r\n\r\n", std::string(50000, 'x')));
  EXPECT_EQ(other.Read().second.size(), 50008u);
}

TEST_F(HttpPortTest, WhoHangsUpHasTheCallCancelled) {
  Start();
  Client client(port_->port());
  client.Send("GET /wait HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(service_->has_come.WaitForNotificationWithTimeout(kPatience));
  EXPECT_FALSE(service_->cancelled.HasBeenNotified());
  client.Close();
  EXPECT_TRUE(service_->cancelled.WaitForNotificationWithTimeout(kPatience));
  service_->AnswerWaiting("too late");
}

TEST_F(HttpPortTest, ManyConnectionsAtOnce) {
  Start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 200; ++i) {
    clients.push_back(std::make_unique<Client>(port_->port()));
    clients.back()->Send("POST /a HTTP/1.1\r\nContent-Length: 1\r\n\r\n");
  }
  for (auto& client : clients) client->Send("x");
  for (auto& client : clients) EXPECT_EQ(client->Read().second, "POST /a x");
}

TEST_F(HttpPortTest, OneConnectionTooManyIsClosed) {
  Start(1 << 20, 1 << 24, /*connections=*/2);
  Client first(port_->port()), second(port_->port());
  first.Send("GET /a HTTP/1.1\r\n\r\n");
  second.Send("GET /a HTTP/1.1\r\n\r\n");
  EXPECT_EQ(first.Status(), 200);
  EXPECT_EQ(second.Status(), 200);
  Client third(port_->port());
  EXPECT_TRUE(third.HasEnded());
  first.Send("GET /a HTTP/1.1\r\n\r\n");
  EXPECT_EQ(first.Status(), 200);
}

TEST_F(HttpPortTest, ClosingEndsWhatIsIdleAndLetsTheOthersBeAnswered) {
  Start();
  Client idle(port_->port()), busy(port_->port());
  idle.Send("GET /a HTTP/1.1\r\n\r\n");
  EXPECT_EQ(idle.Status(), 200);
  busy.Send("GET /wait HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(service_->has_come.WaitForNotificationWithTimeout(kPatience));
  std::thread closing([this] { port_->Close(kPatience); });
  EXPECT_TRUE(idle.HasEnded());
  service_->AnswerWaiting("still");
  EXPECT_EQ(busy.Read().second, "still");
  EXPECT_TRUE(busy.HasEnded());
  busy.Close();
  closing.join();
  EXPECT_FALSE(service_->cancelled.HasBeenNotified());
}

TEST_F(HttpPortTest, ClosingWithoutPatienceCancels) {
  Start();
  Client busy(port_->port());
  busy.Send("GET /wait HTTP/1.1\r\n\r\n");
  ASSERT_TRUE(service_->has_come.WaitForNotificationWithTimeout(kPatience));
  std::thread closing([this] { port_->Close(absl::ZeroDuration()); });
  EXPECT_TRUE(service_->cancelled.WaitForNotificationWithTimeout(kPatience));
  service_->AnswerWaiting("too late");
  closing.join();
  EXPECT_TRUE(busy.HasEnded());
}

TEST(HttpPort, AnAddressThatIsTakenIsAnError) {
  auto log = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::null_sink_mt>());
  HttpPortOptions options;
  options.listen = "127.0.0.1:0";
  options.connections = {10, 10};
  auto first = HttpPort::Open(options, std::make_unique<Echo>(), log);
  ASSERT_TRUE(first.ok());
  options.listen = absl::StrCat("127.0.0.1:", (*first)->port());
  const auto second = HttpPort::Open(options, std::make_unique<Echo>(), log);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(second.status().message(), "--http_listen")) << second.status();
}

}  // namespace
}  // namespace kiln::server
