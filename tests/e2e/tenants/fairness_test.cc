// Shares of a device's time: by the tenants' weights, whatever the sizes of what they run; and a
// caller of little does not wait for those of much.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/e2e/long_run.h"
#include "tests/e2e/submit/submit_client.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

// A hundred sines of slot 0, float32[elements]: some 50 ns for each element on one core.
v1::Graph SinesOf(int64_t elements) {
  std::string text = absl::StrCat("0 CONST [] weakint ", elements, "\n1 PARAM [0] slot=0 dtype=float32\n");
  int last = 1;
  for (int i = 0; i < 100; ++i, ++last) absl::StrAppend(&text, last + 1, " SIN [", last, "]\n");
  return GraphOf(absl::StrCat(text, last + 1, " TUPLE [", last, "]\n"));
}

// A stream that runs one program again and again.
class Caller {
 public:
  Caller(Stubs& stubs, int64_t elements) : stream_(stubs) {
    v1::ExecuteRequest request;
    *request.mutable_graph() = SinesOf(elements);
    stream_.Allocate(kInput, static_cast<uint64_t>(4 * elements));
    AddBuffer(request, 0, kInput);
    stream_.Execute(request, {0});  // compiled
    EXPECT_EQ(stream_.ReadBack(kInput).size(), 4 * static_cast<size_t>(elements));
    request_ = request;
  }

  void Send(int runs) {
    for (int i = 0; i < runs; ++i) stream_.Execute(request_, {0});
    stream_.Read(kInput, 0, 4);
  }
  // All of one Send have ended.
  bool Wait() { return stream_.Next().has_value(); }

 private:
  static constexpr uint64_t kInput = 1;
  SubmitClient stream_;
  v1::ExecuteRequest request_;
};

class FairnessTest : public QuotaTest {
 protected:
  size_t waiting() { return server_->engine().turns().waiting(*server_->engine().devices()[0]); }
};

TEST_F(FairnessTest, DeviceTimeIsSharedByWeight) {
  std::string heavy = TenantWith("b", "");
  heavy.insert(heavy.rfind('}'), " weight: 3 ");
  WriteFile(TenantWith("a", "") + heavy);
  v1::ServerConfig config = server::DefaultConfig();
  config.set_tenants(path_);
  Start(config);
  Stubs a(address(), "secret of a"), b(address(), "secret of b");
  Account& of_a = *server_->engine().accounts().Of("a");
  Account& of_b = *server_->engine().accounts().Of("b");
  ASSERT_EQ(of_b.weight(), 3u);

  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  const auto saturate = [&](Stubs& stubs, int64_t elements) {
    threads.emplace_back([&, elements] {
      Caller caller(stubs, elements);
      int sent = 0;
      for (; sent < 4; ++sent) caller.Send(16);
      ++ready;
      while (!stop && caller.Wait()) caller.Send(16);
      for (; sent > 0 && caller.Wait(); --sent) {
      }
    });
  };
  saturate(a, 64 << 10);
  saturate(b, 16 << 10);
  ASSERT_TRUE(Eventually([&] { return ready == 2; }));
  const uint64_t a_had = of_a.device_ns(), b_had = of_b.device_ns();
  EXPECT_TRUE(Eventually([&] { return of_a.device_ns() + of_b.device_ns() - a_had - b_had > 1'500'000'000; }));
  const auto a_got = static_cast<double>(of_a.device_ns() - a_had),
             b_got = static_cast<double>(of_b.device_ns() - b_had);
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(b_got / a_got, 2.4);
  EXPECT_LT(b_got / a_got, 3.6);
}

TEST_F(FairnessTest, ACallerOfLittleIsNotBehindThoseOfMuch) {
  Start(server::DefaultConfig());
  v1::ExecuteRequest tiny = AddOne(v1::RESULT_INLINE);
  ASSERT_TRUE(Execute(*stubs_, tiny).ok());
  std::vector<std::unique_ptr<Stubs>> stubs;
  std::vector<std::unique_ptr<Caller>> callers;
  for (int i = 0; i < 4; ++i) {
    stubs.push_back(std::make_unique<Stubs>(address()));
    callers.push_back(std::make_unique<Caller>(*stubs.back(), 256 << 10));
  }
  for (const auto& caller : callers) caller->Send(10);
  ASSERT_TRUE(Eventually([this] { return waiting() >= 32; }));
  const auto response = Execute(*stubs_, tiny);
  ASSERT_TRUE(response.ok()) << response.status();
  // In the order of arrival it would have been the last.
  EXPECT_GE(waiting(), 8u);
  EXPECT_EQ(FloatsOf(response->results(0).tensor().data()), std::vector<float>(8, 2));
  for (const auto& caller : callers) EXPECT_TRUE(caller->Wait());
}

class PausingTest : public FairnessTest {
 protected:
  void SetUp() override {
    WriteFile(TenantWith("a", "") + TenantWith("b", ""));
    v1::ServerConfig config = server::DefaultConfig();
    config.set_tenants(path_);
    Start(config);
    a_ = std::make_unique<Stubs>(address(), "secret of a");
    b_ = std::make_unique<Stubs>(address(), "secret of b");
    ASSERT_TRUE(Execute(*b_, tiny_).ok());
  }
  server::LineLook Look() { return server_->engine().turns().Look(*server_->engine().devices()[0]); }
  uint64_t pauses() { return server_->engine().turns().pauses(*server_->engine().devices()[0]); }

  const v1::ExecuteRequest tiny_ = AddOne(v1::RESULT_INLINE);
};

TEST_F(PausingTest, ALongRunComputesTheSameHoweverOftenItPauses) {
  constexpr int64_t kElements = 1 << 20;
  std::vector<float> values(kElements);
  for (int64_t i = 0; i < kElements; ++i) values[i] = static_cast<float>(i) * 1e-4f;
  SubmitClient stream(*a_);
  stream.Allocate(1, 4 * kElements);
  stream.Write(1, BytesOf(values));
  v1::ExecuteRequest request;
  *request.mutable_graph() = SinesOf(kElements);
  AddBuffer(request, 0, 1);
  stream.Execute(request, {2});
  const std::string alone = stream.ReadBack(2);
  EXPECT_NE(alone, BytesOf(values));

  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) EXPECT_TRUE(Execute(*b_, tiny_).ok());
  });
  const uint64_t paused = pauses();
  uint64_t result = 2;
  EXPECT_TRUE(Eventually([&] {
    stream.Execute(request, {++result});
    EXPECT_TRUE(stream.ReadBack(result) == alone);
    stream.Free({result});
    return pauses() >= paused + 10;
  }));
  stop = true;
  other.join();
}

TEST_F(PausingTest, WhoAsksLittleIsServedInTheMiddleOfALongRun) {
  SubmitClient stream(*a_);
  stream.Allocate(1, 4 * kLongElements);
  v1::ExecuteRequest request;
  *request.mutable_graph() = Sines();
  AddBuffer(request, 0, 1);
  uint64_t result = 1;
  // The other may be too slow to come in time: then once more. Behind the run it would be too late each time.
  EXPECT_TRUE(Eventually([&] {
    stream.Execute(request, {++result});
    stream.Read(result, 0, 4);
    stream.Free({result});
    const bool began = Eventually([&] { return !Look().running.empty(); });
    int served = 0;
    for (; served < 3 && began; ++served) EXPECT_TRUE(Execute(*b_, tiny_).ok());
    const bool runs_still = !Look().running.empty();
    const auto answer = stream.Next();
    EXPECT_TRUE(answer.has_value() && answer->event_case() == v1::SubmitResponse::kData) << answer->ShortDebugString();
    return runs_still;
  }));
}

}  // namespace
}  // namespace kiln::e2e
