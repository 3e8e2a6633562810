// Who searches, and when: the search itself does what a test says.
#include "server/engine/programs/tuning_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "runtime/drivers/null/device.h"

namespace kiln::server {
namespace {

class TuningQueueTest : public testing::Test {
 protected:
  TuningQueueTest() {
    devices_.push_back(*runtime::null::CreateDevice({.name = "NULL:0"}));
    turns_ = std::make_unique<Turns>(Turns::Options(), devices_);
    queue_ = std::make_unique<TuningQueue>(
        [this](const v1::Graph& graph, const v1::Target&, const compiler::Options&, compiler::TuneOptions,
               compiler::KernelTimer& timer, const CompileFor&) { return search_(graph, timer); },
        &pool_, 1, turns_.get());
  }

  // Searches for a caller of this number, in a graph with a node of this tag.
  void Search(uint64_t caller, const std::string& tag, absl::BlockingCounter& left) {
    runtime::hal::LaunchControl control;
    control.flow = caller;
    queue_->Schedule(control, [this, tag, control, &left] {
      v1::Graph graph;
      graph.add_nodes()->set_tag(tag);
      compiler::Options options;
      options.beam = 1;
      options.beam_budget_ms = 60'000;
      ended_ += queue_->Run(*devices_[0], graph, options, {{}, control}, nullptr).ok();
      left.DecrementCount();
    });
  }

  std::function<absl::StatusOr<compiler::Tuned>(const v1::Graph&, compiler::KernelTimer&)> search_;
  std::atomic<int> ended_{0};
  CompilePool pool_{1};
  std::vector<std::unique_ptr<runtime::hal::Device>> devices_;
  std::unique_ptr<Turns> turns_;
  std::unique_ptr<TuningQueue> queue_;
};

// One that would go on until another has ended lets it pass between two steps.
TEST_F(TuningQueueTest, ALongSearchLetsAnothersPass) {
  absl::Notification begun, ended;
  std::atomic<int> working{0}, most{0};
  search_ = [&](const v1::Graph& graph, compiler::KernelTimer& timer) -> absl::StatusOr<compiler::Tuned> {
    const auto step = [&] {
      std::vector<absl::AnyInvocable<void()>> jobs;
      jobs.emplace_back([&] {
        most = std::max<int>(most, ++working);
        --working;
      });
      timer.InParallel(std::move(jobs));
    };
    if (graph.nodes(0).tag() == "short") {
      step();
      ended.Notify();
      return compiler::Tuned();
    }
    begun.Notify();
    while (!ended.HasBeenNotified()) step();
    EXPECT_GT(timer.LeftMicros(), 0);
    return compiler::Tuned();
  };
  absl::BlockingCounter left(2);
  Search(1, "long", left);
  begun.WaitForNotification();
  Search(2, "short", left);
  left.Wait();
  EXPECT_EQ(ended_, 2);
  EXPECT_EQ(most, 1);  // never both at once
}

TEST_F(TuningQueueTest, TheSearchesOfOneCallerAreOneAfterTheOther) {
  std::vector<std::string> order;
  search_ = [&](const v1::Graph& graph, compiler::KernelTimer&) -> absl::StatusOr<compiler::Tuned> {
    order.push_back(graph.nodes(0).tag());
    return compiler::Tuned();
  };
  absl::BlockingCounter left(3);
  for (const char* tag : {"a", "b", "c"}) Search(7, tag, left);
  left.Wait();
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "c"}));
}

TEST_F(TuningQueueTest, MoreCallersThanThreadsAreAllServed) {
  std::atomic<int> searched{0};
  search_ = [&](const v1::Graph&, compiler::KernelTimer&) -> absl::StatusOr<compiler::Tuned> {
    ++searched;
    return compiler::Tuned();
  };
  absl::BlockingCounter left(100);
  for (uint64_t caller = 1; caller <= 100; ++caller) Search(caller, "any", left);
  left.Wait();
  EXPECT_EQ(searched, 100);
}

TEST_F(TuningQueueTest, TheServersEndEndsWhatIsUnderWay) {
  absl::Notification begun;
  search_ = [&](const v1::Graph&, compiler::KernelTimer& timer) -> absl::StatusOr<compiler::Tuned> {
    begun.Notify();
    for (;;) {
      if (absl::Status wanted = timer.Wanted(); !wanted.ok()) return wanted;
    }
  };
  absl::BlockingCounter left(1);
  Search(1, "endless", left);
  begun.WaitForNotification();
  queue_->Stop();
  left.Wait();
  EXPECT_EQ(ended_, 0);
}

}  // namespace
}  // namespace kiln::server
