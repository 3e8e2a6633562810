// Leases on a clock that the test sets.
#include "server/engine/sessions/session_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace kiln::server {
namespace {

void ExpectUnknown(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
  EXPECT_EQ(detail.code(), v1::UNKNOWN_HANDLE) << status;
  EXPECT_EQ(detail.field(), kSessionHeader) << status;
}

class SessionTableTest : public ::testing::Test {
 protected:
  SessionTableTest() : table_(Options(), &buffers_) {}

  SessionOptions Options() {
    SessionOptions options;
    options.max_sessions = 3;
    options.now = [this] { return now_; };
    return options;
  }

  void Pass(int seconds) { now_ += std::chrono::seconds(seconds); }

  absl::StatusOr<uint64_t> AddBuffer(SessionPtr owner) {
    auto record = std::make_shared<BufferRecord>();
    record->owner = std::move(owner);
    return buffers_.Add(std::move(record));
  }

  LeaseClock::time_point now_{std::chrono::hours(1)};
  BufferTable buffers_;
  SessionTable table_;
};

TEST_F(SessionTableTest, TokensAreLongAndDiffer) {
  std::set<std::string> tokens;
  for (int i = 0; i < 3; ++i) tokens.insert(table_.Open("", 1)->token);
  EXPECT_EQ(tokens.size(), 3u);
  for (const std::string& token : tokens) EXPECT_EQ(token.size(), 16u);
}

TEST_F(SessionTableTest, TokensNameTheirServer) {
  table_.SetAddress("here:1");
  const std::string token = table_.Open("", 1)->token;
  EXPECT_EQ(token.substr(16), "here:1");
  EXPECT_TRUE(table_.Find(token).ok());
  EXPECT_TRUE(table_.Open(token, 1)->resumed);

  // Of this server, before it was started anew: it is gone.
  ExpectUnknown(table_.Find("0123456789abcdefhere:1").status());
  // What is no address, or of a server that has none.
  for (const char* none : {"", "0123456789abcdef", "0123456789abcdefa b:1", "0123456789abcdef\xff:1", "0123"})
    ExpectUnknown(table_.Find(none).status());
  ExpectUnknown(table_.Find(absl::StrCat("0123456789abcdef", std::string(256, 'a'))).status());

  const std::string other = "0123456789abcdefthere:2";
  for (const absl::Status& status : {table_.Find(other).status(), table_.Renew(other).status(), table_.Close(other),
                                     table_.Attach(other).status(), table_.Open(other, 1).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    const auto detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.code(), v1::WRONG_SERVER);
    EXPECT_EQ(detail.field(), kSessionHeader);
    EXPECT_EQ(detail.server(), "there:2");
  }
}

TEST_F(SessionTableTest, AServerWithoutAnAddressKnowsNoOthers) {
  ExpectUnknown(table_.Find("0123456789abcdefthere:2").status());
  EXPECT_FALSE(table_.Open("0123456789abcdefthere:2", 1)->resumed);
}

TEST_F(SessionTableTest, LeasesHaveADefaultAndALimit) {
  EXPECT_EQ(table_.Open("", 0)->lease_seconds, 10u);
  EXPECT_EQ(table_.Open("", 7)->lease_seconds, 7u);
  EXPECT_EQ(table_.Open("", 1'000'000)->lease_seconds, 3600u);
}

TEST_F(SessionTableTest, ALeaseRunsOutUnlessItIsRenewed) {
  const std::string token = table_.Open("", 10)->token;
  Pass(9);
  EXPECT_EQ(*table_.Renew(token), 10u);
  Pass(9);
  EXPECT_TRUE(table_.Find(token).ok());
  Pass(1);
  // Whether or not anybody has noticed yet.
  ExpectUnknown(table_.Find(token).status());
  ExpectUnknown(table_.Renew(token).status());
  ExpectUnknown(table_.Close(token));
  EXPECT_FALSE(table_.Open(token, 10)->resumed);
  EXPECT_EQ(table_.size(), 2u);
  table_.Expire();
  EXPECT_EQ(table_.size(), 1u);
}

TEST_F(SessionTableTest, UnknownTokens) {
  table_.Open("", 10).IgnoreError();
  for (const std::string& token : {std::string(), std::string("x"), std::string(16, '\0'), std::string(1 << 16, 'y')}) {
    ExpectUnknown(table_.Find(token).status());
    ExpectUnknown(table_.Renew(token).status());
    ExpectUnknown(table_.Close(token));
  }
}

TEST_F(SessionTableTest, AnEndFreesWhatTheSessionOwnsAndNothingElse) {
  const std::string a = table_.Open("", 10)->token;
  const std::string b = table_.Open("", 20)->token;
  const SessionPtr session = *table_.Find(a);
  const uint64_t freed_by_hand = *AddBuffer(session);
  const uint64_t of_a = *AddBuffer(session);
  const SessionPtr owner_of_b = *table_.Find(b);
  const uint64_t of_b = *AddBuffer(owner_of_b);
  const uint64_t of_nobody = *AddBuffer(nullptr);
  ASSERT_TRUE(buffers_.Free({freed_by_hand}, session.get()).ok());
  EXPECT_EQ(buffers_.size(), 3u);

  Pass(10);
  table_.Expire();
  EXPECT_FALSE(buffers_.Find(of_a, session.get()).ok());
  EXPECT_TRUE(buffers_.Find(of_b, owner_of_b.get()).ok());
  ASSERT_TRUE(table_.Close(b).ok());
  EXPECT_FALSE(buffers_.Find(of_b, owner_of_b.get()).ok());
  EXPECT_TRUE(buffers_.Find(of_nobody).ok());
  EXPECT_EQ(buffers_.size(), 1u);

  // A call that began under the session and ends after it makes nothing.
  ExpectUnknown(AddBuffer(session).status());
  EXPECT_EQ(buffers_.size(), 1u);
}

TEST_F(SessionTableTest, OthersDoNotKnowItsHandles) {
  const SessionPtr session = *table_.Find(table_.Open("", 10)->token);
  const SessionPtr other = *table_.Find(table_.Open("", 10)->token);
  const uint64_t owned = *AddBuffer(session);
  const uint64_t of_nobody = *AddBuffer(nullptr);
  for (Session* caller : {other.get(), static_cast<Session*>(nullptr)}) {
    EXPECT_EQ(DetailOf(buffers_.Find(owned, caller).status())->handle(), owned);
    EXPECT_EQ(DetailOf(buffers_.Free({of_nobody, owned}, caller))->handle(), owned);
    EXPECT_TRUE(buffers_.Find(of_nobody, caller).ok());
  }
  EXPECT_TRUE(buffers_.Free({of_nobody, owned}, session.get()).ok());
}

TEST_F(SessionTableTest, AUserKeepsWhatItsSessionLost) {
  const std::string token = table_.Open("", 10)->token;
  const SessionPtr session = *table_.Find(token);
  const uint64_t handle = *AddBuffer(session);
  const BufferTable::Record used = *buffers_.Find(handle, session.get());
  std::weak_ptr<const BufferRecord> watched = used;
  Pass(10);
  table_.Expire();
  EXPECT_FALSE(buffers_.Find(handle, session.get()).ok());
  EXPECT_EQ(watched.use_count(), 1);  // `used`
}

TEST_F(SessionTableTest, ALiveSessionIsResumed) {
  const std::string token = table_.Open("", 10)->token;
  const SessionPtr session = *table_.Find(token);
  Pass(5);
  const auto resumed = table_.Open(token, 30);
  EXPECT_TRUE(resumed->resumed);
  EXPECT_EQ(resumed->token, token);
  EXPECT_EQ(resumed->lease_seconds, 30u);
  Pass(29);
  EXPECT_EQ(*table_.Find(token), session);
  EXPECT_EQ(table_.size(), 1u);
}

TEST_F(SessionTableTest, SessionsAreCounted) {
  std::string token;
  for (int i = 0; i < 3; ++i) token = table_.Open("", 10)->token;
  const absl::Status status = table_.Open("", 10).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(DetailOf(status)->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(DetailOf(status)->limit(), "sessions");
  EXPECT_EQ(DetailOf(status)->limit_value(), 3u);
  EXPECT_TRUE(table_.Open(token, 10)->resumed);
  ASSERT_TRUE(table_.Close(token).ok());
  EXPECT_TRUE(table_.Open("", 10).ok());
}

TEST_F(SessionTableTest, SessionsOfOneAddressAreCounted) {
  SessionOptions options = Options();
  options.max_sessions = 6;
  options.max_sessions_of_peer = 2;
  SessionTable table(options, &buffers_);
  const char kMany[] = "ipv4:10.0.0.1:";
  std::string token;
  for (int port = 1; port <= 2; ++port) token = table.Open("", 10 * port, absl::StrCat(kMany, port))->token;
  const absl::Status status = table.Open("", 10, "ipv4:10.0.0.1:3").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(DetailOf(status)->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(DetailOf(status)->limit(), "sessions of one address");
  EXPECT_EQ(DetailOf(status)->limit_value(), 2u);
  // It may go on with those it has, and others are not in its way.
  EXPECT_TRUE(table.Open(token, 20, "ipv4:10.0.0.1:4")->resumed);
  for (const char* other : {"ipv4:10.0.0.11:1", "ipv6:%5B::1%5D:1", "unix:/a:b", "inproc"}) {
    EXPECT_TRUE(table.Open("", 20, other).ok()) << other;
  }
  EXPECT_EQ(DetailOf(table.Open("", 10, "ipv4:10.0.0.9:1").status())->limit(), "sessions");

  // The place of a session that ends is free again, however it ends.
  Pass(10);
  table.Expire();
  EXPECT_TRUE(table.Open("", 10, "ipv4:10.0.0.1:5").ok());
  ASSERT_TRUE(table.Close(token).ok());
  EXPECT_TRUE(table.Open("", 10, "ipv4:10.0.0.1:6").ok());
  EXPECT_FALSE(table.Open("", 10, "ipv4:10.0.0.1:7").ok());
}

// Ends come in another order than the sessions did, and move when one is renewed.
TEST_F(SessionTableTest, EachLeaseEndsInItsTurn) {
  const std::string a = table_.Open("", 30)->token, b = table_.Open("", 10)->token, c = table_.Open("", 20)->token;
  Pass(9);
  ASSERT_TRUE(table_.Renew(b).ok());  // until 19
  table_.Expire();
  EXPECT_EQ(table_.size(), 3u);
  Pass(10);
  table_.Expire();
  EXPECT_EQ(table_.size(), 2u);
  ExpectUnknown(table_.Find(b).status());
  ASSERT_TRUE(table_.Close(c).ok());
  Pass(10);
  table_.Expire();
  EXPECT_TRUE(table_.Find(a).ok());
  Pass(1);
  table_.Expire();
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(SessionTableTest, EndsAndNewHandlesAtOnceLeaveNothingBehind) {
  for (int round = 0; round < 50; ++round) {
    const std::string token = table_.Open("", 10)->token;
    const SessionPtr session = *table_.Find(token);
    std::atomic<int> made{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        for (;;) {
          const auto handle = AddBuffer(session);
          if (!handle.ok()) return ExpectUnknown(handle.status());
          ++made;
          if (i == 0) buffers_.Free({*handle}, session.get()).IgnoreError();  // the end may have been first
        }
      });
    }
    while (made < 10) std::this_thread::yield();
    ASSERT_TRUE(table_.Close(token).ok());
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(buffers_.size(), 0u);
  }
}

// On a clock that stands, far behind the system's, no lease runs out, and nobody
// looks at it again and again.
TEST(SessionTableWatchTest, WaitsByTheClockOfTheOptions) {
  std::atomic<int> looks{0};
  std::atomic<std::thread::id> watcher{std::thread::id()};
  SessionOptions options;
  options.now = [&] {
    if (std::this_thread::get_id() == watcher.load()) ++looks;
    return LeaseClock::time_point::min() + std::chrono::hours(1);
  };
  BufferTable buffers;
  SessionTable table(options, &buffers);
  std::thread watch([&] {
    watcher = std::this_thread::get_id();
    table.ExpireUntilStopped();
  });
  const std::string token = table.Open("", 3600)->token;
  // Until it has had many turns, if it wants them. On a busy machine each takes a while.
  while (looks == 0) std::this_thread::yield();
  for (int i = 0; i < 1'000; ++i) {
    ASSERT_TRUE(table.Find(token).ok());
    std::this_thread::yield();
  }
  table.Stop();
  watch.join();
  EXPECT_LT(looks, 100);
}

// By the system's clock: a thread that sleeps for an hour hears of a lease that
// ends before.
TEST(SessionTableWatchTest, EndsLeasesAsTheyRunOut) {
  BufferTable buffers;
  SessionTable table({}, &buffers);
  std::thread watch([&table] { table.ExpireUntilStopped(); });
  const std::string longer = table.Open("", 3600)->token;
  const std::string shorter = table.Open("", 1)->token;
  auto record = std::make_shared<BufferRecord>();
  record->owner = *table.Find(shorter);
  ASSERT_TRUE(buffers.Add(std::move(record)).ok());
  while (buffers.size() > 0) std::this_thread::yield();
  ExpectUnknown(table.Find(shorter).status());
  EXPECT_TRUE(table.Find(longer).ok());
  table.Stop();
  watch.join();
}

}  // namespace
}  // namespace kiln::server
