// The generator against a server that is a few lines here, and answers when a test wants it to.
#include "client/load/generator.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/error.h"
#include "client/load/fake_server.h"
#include "google/rpc/status.pb.h"

namespace kiln::load {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

grpc::Status Refusal(v1::ErrorCode code, const std::string& message) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  google::rpc::Status status;
  status.set_code(static_cast<int>(StatusCodeOf(code)));
  status.add_details()->PackFrom(detail);
  return grpc::Status(static_cast<grpc::StatusCode>(StatusCodeOf(code)), message, status.SerializeAsString());
}

// The first call answers at once: it makes a class ready.
grpc::Status UntilCancelled(int number, grpc::ServerContext& context) {
  while (number > 0 && !context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return grpc::Status::OK;
}

class GeneratorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(&devices_).RegisterService(&fake_).RegisterService(&buffers_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    target_ = absl::StrCat("127.0.0.1:", port);
    graph_ = absl::StrCat(testing::TempDir(), "/load_graph.uop");
    std::ofstream(graph_) << "0 CONST [] weakint {n}\n1 TUPLE [0]\n";
    std::ofstream(absl::StrCat(testing::TempDir(), "/load_plain.uop")) << "0 CONST [] weakint 4\n1 TUPLE [0]\n";
  }

  std::unique_ptr<Generator> Make(const std::string& mix) {
    const auto parsed = ParseMix(mix, "test");
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    auto made = Generator::Make(target_, Options(), *parsed, 1);
    EXPECT_TRUE(made.ok()) << made.status();
    return *std::move(made);
  }
  static client::ClientOptions Options() {
    client::ClientOptions options;
    options.credentials = {};
    options.connect_timeout = absl::Seconds(60);
    return options;
  }
  // A class of programs, with these fields.
  std::string Programs(const std::string& fields) const {
    return absl::StrCat("class run graph=", testing::TempDir(), "/load_plain.uop ", fields, "\n");
  }
  static ClassResult RunOne(Generator& generator, absl::Duration length, absl::Duration warm_up = {},
                            absl::Duration drain = absl::Seconds(60)) {
    Step step;
    step.length = length;
    step.warm_up = warm_up;
    step.drain = drain;
    return generator.Run(step).at(0);
  }
  static void ExpectAddsUp(const ClassResult& result) {
    uint64_t failed = 0;
    for (const auto& [kind, of] : result.failures) failed += of.count;
    EXPECT_EQ(result.due, result.ok + failed);
    EXPECT_EQ(result.answered.count(), result.ok);
    EXPECT_EQ(result.failed.count(), failed);
    EXPECT_EQ(result.Latencies().count(), result.due);
  }

  FakeDevices devices_;
  FakeServer fake_;
  FakeBuffers buffers_;
  std::unique_ptr<grpc::Server> server_;
  std::string target_, graph_;
};

TEST_F(GeneratorTest, WhatIsDueIsWhatTheScheduleSays) {
  const auto generator = Make(Programs("rate=200 arrivals=constant outstanding=1000"));
  const ClassResult result = RunOne(*generator, absl::Seconds(1), absl::Milliseconds(500));
  ExpectAddsUp(result);
  EXPECT_EQ(result.name, "run");
  EXPECT_EQ(result.rate, 200);
  EXPECT_NEAR(static_cast<double>(result.due), 200, 1);
  EXPECT_EQ(result.ok, result.due);
  EXPECT_EQ(result.in_deadline, result.due);
  EXPECT_EQ(result.held_back, 0u);
  EXPECT_EQ(result.sent, result.due);
  absl::MutexLock lock(&fake_.mutex);
  EXPECT_NEAR(fake_.calls, 301, 2);  // those that warm up, and the first
  EXPECT_EQ(fake_.requests.back().graph_hash(), fake_.hashes[0]);
  EXPECT_EQ(fake_.requests.back().result_mode(), v1::RESULT_INLINE);
  EXPECT_EQ(fake_.requests.back().arguments(0).buffer().handle(), 5u);
}

// A generator that waits for answers would never send the second.
TEST_F(GeneratorTest, NobodyWaitsForEarlierAnswers) {
  constexpr int kTogether = 20;
  fake_.answer = [this](int number, grpc::ServerContext&) {
    if (number == 0) return grpc::Status::OK;
    absl::MutexLock lock(&fake_.mutex);
    const auto all = [this] { return fake_.calls > kTogether; };
    return fake_.mutex.AwaitWithTimeout(absl::Condition(&all), absl::Seconds(60)) ? grpc::Status::OK
                                                                                  : grpc::Status::CANCELLED;
  };
  const auto generator = Make(Programs("rate=100 arrivals=constant"));
  const ClassResult result = RunOne(*generator, absl::Milliseconds(500));
  ExpectAddsUp(result);
  EXPECT_GE(result.due, 49u);
  EXPECT_EQ(result.ok, result.due);
}

// One answer takes half a second; all that were due meanwhile have waited, and the figures say so.
TEST_F(GeneratorTest, AServerThatStallsIsNotSpared) {
  fake_.answer = [](int number, grpc::ServerContext&) {
    if (number == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    return grpc::Status::OK;
  };
  const auto generator = Make(Programs("rate=100 arrivals=constant outstanding=1"));
  const ClassResult result = RunOne(*generator, absl::Seconds(1));
  ExpectAddsUp(result);
  EXPECT_GE(result.held_back, 45u);
  EXPECT_LE(fake_.most_at_once, 1);
  // Those that were due in the first 0.4 s had to wait for 0.1 s and more.
  EXPECT_GE(result.Latencies().Quantile(1 - 39.0 / static_cast<double>(result.due)), 100'000'000u);
}

TEST_F(GeneratorTest, BeyondTheBoundNothingIsSentAndNothingForgotten) {
  fake_.answer = UntilCancelled;
  const auto generator = Make(Programs("rate=200 arrivals=constant outstanding=3"));
  const ClassResult result = RunOne(*generator, absl::Milliseconds(500), {}, /*drain=*/absl::Seconds(2));
  ExpectAddsUp(result);
  EXPECT_LE(fake_.most_at_once, 3);
  EXPECT_NEAR(static_cast<double>(result.due), 100, 1);
  EXPECT_EQ(result.sent, 3u);
  EXPECT_EQ(result.failures.at(kNotAnswered).count, 3u);
  EXPECT_EQ(result.failures.at(kNotSent).count, result.due - 3);
  EXPECT_EQ(result.held_back, result.due - 3);
  EXPECT_THAT(result.failures.at(kNotSent).example, HasSubstr("3 were under way"));
  // They waited until the end: the median was due in the middle.
  EXPECT_GT(result.failed.Quantile(0.5), 200'000'000u);
}

TEST_F(GeneratorTest, ADeadlineIsTheServersAndCountsFromWhenItWasDue) {
  fake_.answer = [](int number, grpc::ServerContext& context) {
    if (number == 0) return grpc::Status::OK;
    EXPECT_LT(context.deadline(), std::chrono::system_clock::now() + std::chrono::seconds(4));
    while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "late");
  };
  const auto generator = Make(Programs("rate=100 arrivals=constant outstanding=1 deadline=3s"));
  const ClassResult result = RunOne(*generator, absl::Milliseconds(500));
  ExpectAddsUp(result);
  EXPECT_EQ(result.ok, 0u);
  EXPECT_EQ(result.goodput(), 0);
  EXPECT_EQ(result.failures.at("DEADLINE_EXCEEDED").count, 1u);
  EXPECT_EQ(result.failures.at(kNotSent).count, result.due - 1);
  EXPECT_GE(result.failed.max(), 2'900'000'000u);
}

// Every call takes up its whole time. Those behind it are sent with what is left of theirs, or not at all.
TEST_F(GeneratorTest, WhatIsHeldBackHasNoMoreTimeForIt) {
  fake_.answer = UntilCancelled;
  const auto generator = Make(Programs("rate=2000 outstanding=1 deadline=50ms"));
  const ClassResult result = RunOne(*generator, absl::Milliseconds(500));
  ExpectAddsUp(result);
  EXPECT_EQ(result.ok, 0u);
  uint64_t late = 0;
  for (const auto& [kind, of] : result.failures) {
    EXPECT_TRUE(kind == kNotSent || kind == "DEADLINE_EXCEEDED") << kind << ": " << of.example;
    late += of.count;
  }
  EXPECT_EQ(late, result.due);
  // All but those of the end had their 50 ms, give or take gRPC's millisecond.
  EXPECT_GE(result.failed.Quantile(0.2), 45'000'000u);
}

TEST_F(GeneratorTest, FailuresAreCountedByTheirKind) {
  fake_.answer = [](int number, grpc::ServerContext&) {
    if (number % 2 == 0) return grpc::Status::OK;
    return Refusal(v1::QUOTA_EXCEEDED, "too many requests a second");
  };
  const auto generator = Make(Programs("rate=200"));
  const ClassResult result = RunOne(*generator, absl::Milliseconds(500));
  ExpectAddsUp(result);
  EXPECT_GE(result.ok, 1u);
  ASSERT_THAT(result.failures, SizeIs(1));
  const Failures& refused = result.failures.at("RESOURCE_EXHAUSTED QUOTA_EXCEEDED");
  EXPECT_LE(result.ok, refused.count + 1);
  EXPECT_EQ(refused.example, "too many requests a second");
}

TEST_F(GeneratorTest, EveryTenantHasItsTokenAndItsConnections) {
  const std::string token = absl::StrCat(testing::TempDir(), "/load.token");
  std::ofstream(token) << "secret of a\n";
  const auto generator = Make(absl::StrCat("tenant a token_file=", token, " connections=3\ntenant b\n",
                                           Programs("rate=100 tenant=a"), "class other graph=", testing::TempDir(),
                                           "/load_plain.uop rate=100 tenant=b arguments=inline\n"));
  Step step;
  step.length = absl::Milliseconds(500);
  step.warm_up = {};
  step.drain = absl::Seconds(60);
  const auto results = generator->Run(step);
  ASSERT_THAT(results, SizeIs(2));
  EXPECT_EQ(results[0].name, "run");
  EXPECT_EQ(results[1].name, "other");
  for (const ClassResult& each : results) {
    ExpectAddsUp(each);
    EXPECT_EQ(each.ok, each.due);
    EXPECT_GE(each.due, 20u);
  }
  absl::MutexLock lock(&fake_.mutex);
  EXPECT_THAT(fake_.peers, SizeIs(2));
  EXPECT_EQ(fake_.peers["Bearer secret of a"].size(), 3u + 1);  // the first is what makes it ready
  EXPECT_EQ(fake_.peers[""].size(), 1u + 1);
  int by_value = 0;
  for (const auto& request : fake_.requests) by_value += request.arguments(0).tensor().data().size() == 16;
  EXPECT_EQ(by_value, static_cast<int>(results[1].due) + 1);
}

TEST_F(GeneratorTest, UploadsArriveWhole) {
  const auto generator = Make("class up kind=upload bytes=2500000 rate=20\nclass small kind=upload bytes=7 rate=20\n");
  Step step;
  step.length = absl::Milliseconds(500);
  step.warm_up = {};
  step.drain = absl::Seconds(60);
  uint64_t ok = 0;
  for (const ClassResult& each : generator->Run(step)) {
    ExpectAddsUp(each);
    EXPECT_EQ(each.ok, each.due);
    ok += each.ok;
  }
  absl::MutexLock lock(&buffers_.mutex);
  EXPECT_EQ(buffers_.uploads.size(), ok);
  for (const auto& [promised, came] : buffers_.uploads) {
    EXPECT_EQ(promised, came);
    EXPECT_TRUE(came == 2'500'000 || came == 7) << came;
  }
}

TEST_F(GeneratorTest, EveryCompilationIsOfAnotherGraph) {
  const auto generator = Make(absl::StrCat("class fresh kind=compile rate=100 graph=", graph_));
  const ClassResult result = RunOne(*generator, absl::Milliseconds(300));
  ExpectAddsUp(result);
  EXPECT_EQ(result.ok, result.due);
  absl::MutexLock lock(&fake_.mutex);
  EXPECT_EQ(fake_.compiled.size(), result.due + 1);
  EXPECT_EQ(std::set<std::string>(fake_.compiled.begin(), fake_.compiled.end()).size(), fake_.compiled.size());
}

TEST_F(GeneratorTest, WhatIsNotAnsweredIsGivenUp) {
  fake_.answer = UntilCancelled;
  const auto generator = Make(Programs("rate=50 arrivals=constant"));
  const ClassResult result = RunOne(*generator, absl::Milliseconds(200), {}, /*drain=*/absl::Seconds(2));
  ExpectAddsUp(result);
  EXPECT_EQ(result.ok, 0u);
  ASSERT_THAT(result.failures, SizeIs(1));
  EXPECT_EQ(result.failures.at(kNotAnswered).count, result.due);
  const auto none = [this] { return fake_.at_once == 0; };
  {
    absl::MutexLock lock(&fake_.mutex);
    ASSERT_TRUE(fake_.mutex.AwaitWithTimeout(absl::Condition(&none), absl::Seconds(60)));
  }
  // And the next step begins anew.
  fake_.answer = [](int, grpc::ServerContext&) { return grpc::Status::OK; };
  const ClassResult next = RunOne(*generator, absl::Milliseconds(200));
  EXPECT_EQ(next.ok, next.due);
  EXPECT_TRUE(next.failures.empty());
}

TEST_F(GeneratorTest, StopEndsAStep) {
  std::unique_ptr<Generator> generator;
  fake_.answer = [&](int number, grpc::ServerContext&) {
    if (number == 5) generator->Stop();
    return grpc::Status::OK;
  };
  generator = Make(Programs("rate=100 arrivals=constant"));
  const ClassResult result = RunOne(*generator, absl::Hours(10));
  ExpectAddsUp(result);
  EXPECT_GE(result.due, 5u);
  EXPECT_LT(result.seconds, 3600);
}

TEST_F(GeneratorTest, ErrorsNameTheClassOrTheTenant) {
  for (const auto& [mix, says] : std::vector<std::pair<std::string, std::string>>{
           {"class a graph=/nowhere/g.uop", "test:1: class a: cannot read /nowhere/g.uop"},
           {"class a kind=compile graph=/nowhere/g.uop", "test:1: class a: cannot read /nowhere/g.uop"},
           {"tenant t token_file=/nowhere/token\nclass a kind=upload", "tenant t: cannot read /nowhere/token"}}) {
    const auto made = Generator::Make(target_, Options(), *ParseMix(mix, "test"), 1);
    ASSERT_FALSE(made.ok());
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(says));
  }
  fake_.answer = [](int, grpc::ServerContext&) { return Refusal(v1::OUT_OF_MEMORY, "no room"); };
  const auto made = Generator::Make(target_, Options(), *ParseMix(Programs(""), "test"), 1);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(DetailOf(made.status())->code(), v1::OUT_OF_MEMORY);
  EXPECT_EQ(made.status().message(), "test:1: class run: no room");
}

}  // namespace
}  // namespace kiln::load
