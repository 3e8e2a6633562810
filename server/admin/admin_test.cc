#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <prometheus/text_serializer.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/admin/admin_port.h"
#include "server/admin/families.h"
#include "server/admin/process_stats.h"

namespace kiln::server {
namespace {

using testing::Test;

class AdminPortTest : public Test {
 protected:
  void SetUp() override {
    auto opened = AdminPort::Open(
        "127.0.0.1:0",
        {{"/text", [](const AdminRequest&) { return AdminAnswer{200, "text/plain", "hello\n", ""}; }},
         {"/not", [](const AdminRequest&) { return AdminAnswer{503, "text/plain", "no\n", ""}; }},
         {"/large", [](const AdminRequest&) { return AdminAnswer{200, "text/plain", std::string(64 << 20, 'x'), ""}; }},
         {"/file", [](const AdminRequest&) { return AdminAnswer{200, "text/css", "p {}", "\"t1\""}; }},
         {"/echo",
          [](const AdminRequest& request) {
            return AdminAnswer{200, "text/plain", absl::StrCat(request.Get("a"), "|", request.Get("b")), ""};
          }}},
        {"gpu1.example"});
    ASSERT_TRUE(opened.ok()) << opened.status();
    port_ = *std::move(opened);
    ASSERT_GT(port_->port(), 0);
  }

  int Connect() const {
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return connection;
  }

  static void Send(int connection, const std::string& text) {
    EXPECT_EQ(send(connection, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }

  // All that comes until the other end closes.
  std::string Ask(const std::string& request) const {
    const int connection = Connect();
    Send(connection, request);
    std::string answer;
    char bytes[4096];
    for (ssize_t came; (came = recv(connection, bytes, sizeof(bytes), 0)) > 0;)
      answer.append(bytes, static_cast<size_t>(came));
    close(connection);
    return answer;
  }

  std::unique_ptr<AdminPort> port_;
};

TEST_F(AdminPortTest, APageIsRead) {
  const std::string answer = Ask("GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(answer, "HTTP/1.1 200 OK\r\n")) << answer;
  EXPECT_TRUE(absl::StrContains(answer, "\r\nContent-Length: 6\r\n")) << answer;
  EXPECT_TRUE(absl::EndsWith(answer, "\r\n\r\nhello\n")) << answer;
  EXPECT_TRUE(
      absl::StartsWith(Ask("GET /text?collect=all HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 200 OK\r\n"));
  EXPECT_TRUE(absl::EndsWith(Ask("HEAD /text HTTP/1.1\r\nHost: localhost\r\n\r\n"), "\r\n\r\n"));
  EXPECT_TRUE(
      absl::StartsWith(Ask("GET /not HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 503 Service Unavailable\r\n"));
}

TEST_F(AdminPortTest, AllElseIsRefused) {
  EXPECT_TRUE(absl::StartsWith(Ask("GET /etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 404 "));
  EXPECT_TRUE(absl::StartsWith(Ask("GET /text/../../etc/passwd HTTP/1.1\r\nHost: localhost\r\n\r\n"), "HTTP/1.1 404 "));
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    const std::string answer =
        Ask(absl::StrCat(method, " /text HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
    EXPECT_TRUE(absl::StartsWith(answer, "HTTP/1.1 405 ")) << method << ": " << answer;
  }
  const std::string nonsense = Ask("nonsense\r\n\r\n");
  EXPECT_FALSE(absl::StartsWith(nonsense, "HTTP/1.1 200")) << nonsense;
  const std::string large =
      Ask(absl::StrCat("GET /text HTTP/1.1\r\nHost: localhost\r\nX: ", std::string(16 << 10, 'x'), "\r\n\r\n"));
  EXPECT_FALSE(absl::StrContains(large, "hello")) << large;
  EXPECT_TRUE(absl::EndsWith(Ask("GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n"), "hello\n"));
}

TEST_F(AdminPortTest, ANameOfAStrangersIsRefused) {
  for (const char* host : {"localhost", "LocalHost:1", "127.0.0.1", "127.0.0.1:7438", "10.1.2.3:1", "[::1]:80",
                           "gpu1.example:9", "GPU1.example"}) {
    EXPECT_TRUE(absl::EndsWith(Ask(absl::StrCat("GET /text HTTP/1.1\r\nHost: ", host, "\r\n\r\n")), "hello\n")) << host;
  }
  for (const char* host : {"evil.example", "evil.example:7438", "localhost.evil.example", "127.0.0.1.evil.example",
                           "1.2.3", "[evil]", "[::1", "gpu1.example.evil", "0x7f000001", ":80"}) {
    const std::string answer = Ask(absl::StrCat("GET /text HTTP/1.1\r\nHost: ", host, "\r\n\r\n"));
    EXPECT_FALSE(absl::StrContains(answer, "hello")) << host;
    EXPECT_TRUE(absl::StartsWith(answer, "HTTP/1.1 4")) << host << ": " << answer;
  }
  // Who says none is no browser.
  EXPECT_TRUE(absl::EndsWith(Ask("GET /text HTTP/1.0\r\n\r\n"), "hello\n"));
}

TEST_F(AdminPortTest, EveryAnswerSaysWhatBrowsersMayDo) {
  for (const char* line : {"GET /text", "GET /file", "GET /none", "POST /text"}) {
    const std::string answer = Ask(absl::StrCat(line, " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"));
    for (const char* header : {"\r\nX-Content-Type-Options: nosniff\r\n", "\r\nReferrer-Policy: no-referrer\r\n",
                               "\r\nCross-Origin-Resource-Policy: same-origin\r\n",
                               "\r\nContent-Security-Policy: default-src 'none'; script-src 'self'; "}) {
      EXPECT_TRUE(absl::StrContains(answer, header)) << line << header;
    }
    EXPECT_FALSE(absl::StrContains(answer, "Access-Control")) << line;
    EXPECT_FALSE(absl::StrContains(answer, "unsafe-inline")) << line;
  }
}

TEST_F(AdminPortTest, WhatHasATagIsNotSentTwice) {
  const std::string first = Ask("GET /file HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(absl::StrContains(first, "\r\nETag: \"t1\"\r\n")) << first;
  EXPECT_TRUE(absl::StrContains(first, "\r\nCache-Control: no-cache\r\n")) << first;
  const std::string again = Ask("GET /file HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"t1\"\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(again, "HTTP/1.1 304 Not Modified\r\n")) << again;
  EXPECT_TRUE(absl::EndsWith(again, "\r\n\r\n")) << again;
  const std::string other = Ask("GET /file HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: \"t0\"\r\n\r\n");
  EXPECT_TRUE(absl::StartsWith(other, "HTTP/1.1 200 OK\r\n")) << other;
  EXPECT_TRUE(
      absl::StrContains(Ask("GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n"), "\r\nCache-Control: no-store\r\n"));
}

TEST_F(AdminPortTest, QueriesAreDecoded) {
  EXPECT_TRUE(absl::EndsWith(Ask("GET /echo?a=%3Cb%3E+c&b=1 HTTP/1.1\r\nHost: localhost\r\n\r\n"), "\r\n\r\n<b> c|1"));
  EXPECT_TRUE(absl::EndsWith(Ask("GET /echo?b=%zz&a HTTP/1.1\r\nHost: localhost\r\n\r\n"), "|%zz"));
  EXPECT_TRUE(absl::EndsWith(Ask("GET /echo HTTP/1.1\r\nHost: localhost\r\n\r\n"), "\r\n\r\n|"));
}

// As many as there are threads: some do not ask, some do not read.
TEST_F(AdminPortTest, SlowClientsDoNotHoldIt) {
  std::vector<int> slow;
  for (int i = 0; i < 2; ++i) {
    slow.push_back(Connect());
    Send(slow.back(), "GET /text HTT");
    slow.push_back(Connect());
    Send(slow.back(), "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  }
  EXPECT_TRUE(absl::EndsWith(Ask("GET /text HTTP/1.1\r\nHost: localhost\r\n\r\n"), "hello\n"));
  for (const int connection : slow) close(connection);
}

TEST(AdminPort, AnAddressThatIsTakenIsSaid) {
  const auto first = AdminPort::Open("127.0.0.1:0", {});
  ASSERT_TRUE(first.ok());
  const auto second = AdminPort::Open(absl::StrCat("127.0.0.1:", (*first)->port()), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
}

TEST(Families, AHistogramGrowsTowardsItsCount) {
  Metrics metrics;
  for (const int64_t nanos : {300, 300, 700, 2'000}) metrics.queue.Observe(nanos);
  prometheus::MetricFamily family = {"q", "h", prometheus::MetricType::Histogram, {}};
  AddHistogram(metrics.queue, OpenNames(), family);
  ASSERT_EQ(family.metric.size(), 1);
  const prometheus::ClientMetric::Histogram& shown = family.metric[0].histogram;
  EXPECT_EQ(shown.sample_count, 4);
  EXPECT_DOUBLE_EQ(shown.sample_sum, 3.3e-6);
  ASSERT_EQ(shown.bucket.size(), std::size(kStepBounds) + 1);
  EXPECT_EQ(shown.bucket[0].cumulative_count, 0);
  EXPECT_EQ(shown.bucket[1].cumulative_count, 2);
  EXPECT_EQ(shown.bucket[1].upper_bound, 5e-7);
  EXPECT_EQ(shown.bucket[2].cumulative_count, 3);
  EXPECT_EQ(shown.bucket.back().cumulative_count, 4);
}

TEST(Families, SeriesWithNamesAloneAreShown) {
  Metrics metrics;
  metrics.device_busy.AddSeconds(2, {0}, {2});
  metrics.device_busy.AddSeconds(3, {1}, {2});  // of no device that there is
  const OpenNames names = {{}, {"CPU:0"}, {"", "other", "a\"b\\\n"}, {}, {}};
  prometheus::MetricFamily family = {"busy", "Busy.", prometheus::MetricType::Counter, {}};
  AddCounter(metrics.device_busy, 1e9, names, family);
  EXPECT_EQ(prometheus::TextSerializer().Serialize({family}),
            "# HELP busy Busy.\n# TYPE busy counter\nbusy{device=\"CPU:0\",tenant=\"a\\\"b\\\\\\n\"} 2\n");
}

TEST(Families, AListIsThereFromTheStart) {
  const Metrics metrics;
  prometheus::MetricFamily family = {"c", "h", prometheus::MetricType::Counter, {}};
  AddCounter(metrics.cancelled, 1, OpenNames(), family);
  EXPECT_EQ(family.metric.size(), LabelOf<Place>::kMost);
  family.metric.clear();
  AddCounter(metrics.cache_lookups, 1, OpenNames(), family);
  EXPECT_TRUE(family.metric.empty());
}

TEST(ProcessStats, AreOfThisProcess) {
  const ProcessStats before = ReadProcessStats();
  EXPECT_GT(before.resident_bytes, 1 << 20);
  EXPECT_GE(before.virtual_bytes, before.resident_bytes);
  EXPECT_GE(before.open_fds, 3);
  EXPECT_LE(before.open_fds, before.max_fds);
  EXPECT_GT(before.start_seconds, 1.7e9);
  const int more = dup(0);
  std::thread thread([&before] {
    const ProcessStats now = ReadProcessStats();
    EXPECT_EQ(now.open_fds, before.open_fds + 1);
    EXPECT_EQ(now.threads, before.threads + 1);
    EXPECT_GE(now.cpu_seconds, before.cpu_seconds);
    EXPECT_NEAR(now.start_seconds, before.start_seconds, 1);
  });
  thread.join();
  close(more);
}

}  // namespace
}  // namespace kiln::server
