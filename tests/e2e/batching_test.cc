// Executions that come while one of the same program runs: one run, of which each gets its own rows.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/engine/engine.h"
#include "tests/e2e/server_fixture.h"

namespace kiln::e2e {
namespace {

// Node 4 is x, float32 [n, 2] in slot 0, where n, 1 to 64, is slot 5; node 10 is x * w, of w, float32 [2] in slot 1.
constexpr char kProduct[] = R"(
  0 STACK []
  1 PARAM [0] slot=5 dtype=int32 space=ALU name="n" min=1 max=64
  2 CONST [] weakint 2
  3 STACK [1, 2]
  4 PARAM [3] slot=0 dtype=float32
  5 PARAM [2] slot=1 dtype=float32
  6 CONST [] weakint 1
  7 STACK [6, 2]
  8 RESHAPE [5, 7]
  9 EXPAND [8, 3]
  10 MUL [4, 9]
)";
constexpr char kScaled[] = "11 TUPLE [10]\n";
// The sum of all rows beside it.
constexpr char kWithTotal[] = "11 REDUCE [4] ADD axes=(0, 1)\n12 TUPLE [10, 11]\n";

class BatchingTest : public ServerTest {
 protected:
  struct Asked {
    std::vector<float> x;
    std::vector<int64_t> shape;
    std::string bytes;
    absl::StatusOr<server::ExecuteResult> result = absl::UnknownError("none");
    absl::Notification done;
  };

  void SetUp() override {
    ServerTest::SetUp();
    weights_ = *AllocateBytes(*stubs_, 2 * sizeof(float));
    ASSERT_TRUE(Upload(*stubs_, weights_, BytesOf({10, 100})).ok());
  }

  void Use(const char* results) {
    graph_ = GraphOf(absl::StrCat(kProduct, results));
    // Else the first would run on a thread that compiles, which might still look for more when others come.
    ASSERT_TRUE(Compile(*stubs_, graph_).ok());
    // Slow at first, as the compiler sees it; it is known once it has run.
    for (int i = 0; i < 3; ++i) Wait(Ask({1, 2}));
    asked_.clear();
  }

  Asked& Ask(const std::vector<float>& x, uint64_t weights = 0) {
    Asked& asked = *asked_.emplace_back(std::make_unique<Asked>());
    asked.x = x;
    asked.shape = {static_cast<int64_t>(x.size() / 2), 2};
    asked.bytes = BytesOf(x);
    server::ExecuteRequest request;
    request.graph = &graph_;
    request.may_wait = may_wait_;
    request.results_inline = true;
    request.arguments.push_back({5, asked.shape[0]});
    request.arguments.push_back({0, server::TensorView{v1::FLOAT32, asked.shape, asked.bytes}});
    request.arguments.push_back({1, server::BufferAddress{weights == 0 ? weights_ : weights, 0}});
    server_->engine().Execute(std::move(request), {}, [&asked](absl::StatusOr<server::ExecuteResult> result) {
      asked.result = std::move(result);
      asked.done.Notify();
    });
    return asked;
  }

  static void Wait(Asked& asked) { asked.done.WaitForNotification(); }

  // Asks while the device is busy, and waits for all.
  std::vector<int> BatchesOf(const std::vector<std::vector<float>>& all) {
    runtime::hal::Device* device = *server_->engine().FindDevice("", nullptr);
    absl::Notification go_on;
    device->queue().Submit([&go_on] { go_on.WaitForNotification(); }, 1'000'000'000);
    for (const std::vector<float>& x : all) Ask(x);
    go_on.Notify();
    std::vector<int> batches;
    for (const auto& asked : asked_) {
      Wait(*asked);
      batches.push_back(asked->result.ok() ? asked->result->batch : -1);
    }
    return batches;
  }

  v1::Graph graph_;
  uint64_t weights_ = 0;
  bool may_wait_ = true;
  std::vector<std::unique_ptr<Asked>> asked_;
};

TEST_F(BatchingTest, EachGetsItsOwnRows) {
  Use(kScaled);
  EXPECT_EQ(BatchesOf({{1, 2}, {3, 4}, {5, 6, 7, 8}, {9, 10}}), (std::vector<int>{1, 3, 0, 0}));
  for (const auto& asked : asked_) {
    ASSERT_TRUE(asked->result.ok()) << asked->result.status();
    std::vector<float> expected = asked->x;
    for (size_t i = 0; i < expected.size(); ++i) expected[i] *= i % 2 == 0 ? 10 : 100;
    EXPECT_EQ(FloatsOf(asked->result->results[0].data), expected);
    EXPECT_EQ(asked->result->results[0].shape, asked->shape);
  }
}

TEST_F(BatchingTest, WhatMixesRowsIsRunAlone) {
  Use(kWithTotal);
  EXPECT_EQ(BatchesOf({{1, 2}, {3, 4}, {5, 6, 7, 8}}), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(FloatsOf(asked_[2]->result->results[1].data), (std::vector<float>{26}));
}

TEST_F(BatchingTest, MemoryThatMayChangeIsReadInOrder) {
  may_wait_ = false;
  Use(kScaled);
  EXPECT_EQ(BatchesOf({{1, 2}, {3, 4}, {5, 6}}), (std::vector<int>{1, 1, 1}));
}

TEST_F(BatchingTest, ABadRequestIsRefusedAndTheOthersAreNot) {
  Use(kScaled);
  runtime::hal::Device* device = *server_->engine().FindDevice("", nullptr);
  absl::Notification go_on;
  device->queue().Submit([&go_on] { go_on.WaitForNotification(); }, 1'000'000'000);
  Ask({1, 2});
  Asked &mine = Ask({3, 4}), &bad = Ask({5, 6}, /*weights=*/12345), &other = Ask({7, 8});
  go_on.Notify();
  for (const auto& asked : asked_) Wait(*asked);
  EXPECT_EQ(DetailOf(bad.result.status())->code(), v1::UNKNOWN_HANDLE) << bad.result.status();
  ASSERT_TRUE(mine.result.ok() && other.result.ok());
  EXPECT_EQ(FloatsOf(mine.result->results[0].data), (std::vector<float>{30, 400}));
  EXPECT_EQ(FloatsOf(other.result->results[0].data), (std::vector<float>{70, 800}));
}

TEST_F(BatchingTest, ABufferThatIsFreedLivesOnForWhoWaits) {
  Use(kScaled);
  runtime::hal::Device* device = *server_->engine().FindDevice("", nullptr);
  absl::Notification go_on;
  device->queue().Submit([&go_on] { go_on.WaitForNotification(); }, 1'000'000'000);
  Ask({1, 2});
  Asked& waits = Ask({3, 4});
  EXPECT_TRUE(Free(*stubs_, {weights_}).ok());
  go_on.Notify();
  for (const auto& asked : asked_) Wait(*asked);
  ASSERT_TRUE(waits.result.ok()) << waits.result.status();
  EXPECT_EQ(FloatsOf(waits.result->results[0].data), (std::vector<float>{30, 400}));
}

TEST_F(BatchingTest, CanBeTurnedOff) {
  v1::ServerConfig config = server::DefaultConfig();
  config.set_batching(false);
  Start(config);
  weights_ = *AllocateBytes(*stubs_, 2 * sizeof(float));
  Use(kScaled);
  EXPECT_EQ(BatchesOf({{1, 2}, {3, 4}, {5, 6}}), (std::vector<int>{1, 1, 1}));
}

}  // namespace
}  // namespace kiln::e2e
