// What pauses in a HostQueue, on its runners.
#include "runtime/drivers/host/runners.h"

#include <atomic>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "runtime/drivers/host/host_queue.h"

namespace kiln::runtime::host {
namespace {

constexpr uint64_t kLongNs = 1'000'000;
constexpr uint64_t kNotOnThisThread = ~uint64_t{0};

class RunnersTest : public ::testing::Test {
 protected:
  void Note(const std::string& what) {
    absl::MutexLock lock(&mutex_);
    seen_.push_back(what);
  }
  std::vector<std::string> Seen() {
    absl::MutexLock lock(&mutex_);
    return seen_;
  }
  void Drain() { ASSERT_TRUE(queue_.Drain(absl::InfiniteFuture()).ok()); }
  // Notes that it began and, once its continuation has been submitted `pauses` times, that it ended.
  void SubmitPausing(const std::string& name, int pauses, hal::Work*& continuation) {
    queue_.Submit(
        [this, name, pauses, &continuation] {
          Note(name);
          for (int i = 0; i < pauses; ++i) {
            continuation = queue_.Continuation();
            ASSERT_NE(continuation, nullptr);
            queue_.Pause();
          }
          Note(name + " ends");
        },
        kLongNs);
  }

  std::vector<size_t> done_;
  HostQueue queue_{nullptr, 10'000, [this](size_t runner) { const_cast<RunnersTest*>(this)->done_.push_back(runner); }};

 private:
  absl::Mutex mutex_;
  std::vector<std::string> seen_ ABSL_GUARDED_BY(mutex_);
};

using Names = std::vector<std::string>;

TEST_F(RunnersTest, WhatComesAfterOneThatPausesRunsBeforeItGoesOn) {
  hal::Work* a = nullptr;
  SubmitPausing("a", 1, a);
  queue_.Submit([this] { Note("b"); }, kLongNs);
  Drain();
  EXPECT_EQ(Seen(), (Names{"a", "b"}));
  queue_.Submit([this] { Note("c"); }, 0);
  queue_.Submit(a, kNotOnThisThread);
  queue_.Submit([this] { Note("d"); }, 0);
  Drain();
  EXPECT_EQ(Seen(), (Names{"a", "b", "c", "a ends", "d"}));
  EXPECT_EQ(done_.size(), 1u);
}

TEST_F(RunnersTest, ItsContinuationMayComeBeforeThePause) {
  queue_.Submit(
      [this] {
        Note("a");
        queue_.Submit([this] { Note("b"); }, 0);
        queue_.Submit(queue_.Continuation(), kNotOnThisThread);
        queue_.Pause();
        Note("a ends");
      },
      kLongNs);
  Drain();
  Drain();  // the first was behind "a" when it had paused
  EXPECT_EQ(Seen(), (Names{"a", "b", "a ends"}));
}

TEST_F(RunnersTest, OneMayPauseAgainAndOthersBeside) {
  hal::Work *a = nullptr, *b = nullptr;
  SubmitPausing("a", 3, a);
  SubmitPausing("b", 2, b);
  for (int i = 0; i < 2; ++i) {
    Drain();
    queue_.Submit(a, kNotOnThisThread);
    queue_.Submit(b, kNotOnThisThread);
  }
  Drain();
  EXPECT_EQ(Seen(), (Names{"a", "b", "b ends"}));
  queue_.Submit(a, kNotOnThisThread);
  Drain();
  EXPECT_EQ(Seen(), (Names{"a", "b", "b ends", "a ends"}));
}

TEST_F(RunnersTest, ASubmittingThreadDoesNotPause) {
  bool ran = false;
  queue_.Submit(
      [&] {
        EXPECT_EQ(queue_.Continuation(), nullptr);
        ran = true;
      },
      0);
  EXPECT_TRUE(ran);
}

TEST_F(RunnersTest, NorDoesAnotherQueuesThread) {
  HostQueue other(nullptr, 10'000, [](size_t) {});
  absl::Notification done;
  other.Submit(
      [&] {
        queue_.Submit([&] { EXPECT_EQ(queue_.Continuation(), nullptr); }, 0);
        EXPECT_NE(other.Continuation(), nullptr);
        done.Notify();
      },
      kLongNs);
  done.WaitForNotification();
  ASSERT_TRUE(other.Drain(absl::InfiniteFuture()).ok());
}

TEST_F(RunnersTest, OneLessThanThereAreRunnersPause) {
  std::vector<hal::Work*> paused(Runners::kMax - 1);
  for (hal::Work*& each : paused) SubmitPausing("one", 1, each);
  std::set<size_t> numbers;
  queue_.Submit(
      [&] {
        EXPECT_EQ(queue_.Continuation(), nullptr);
        numbers.insert(queue_.runner());
      },
      kLongNs);
  Drain();
  ASSERT_EQ(numbers.size(), 1u);
  for (hal::Work* each : paused) queue_.Submit(each, kNotOnThisThread);
  Drain();
  EXPECT_EQ(Seen().size(), 2 * paused.size());
  for (const size_t each : done_) EXPECT_TRUE(numbers.insert(each).second) << "a number of two at once";
  EXPECT_EQ(numbers.size(), Runners::kMax);
}

// Each goes on as often as it pauses, one at a time, whoever submits what when.
TEST_F(RunnersTest, RandomPausesKeepOneAtATime) {
  constexpr int kWorks = 3000;
  std::atomic<int> inside{0}, ended{0}, paused{0};
  absl::Notification all;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < kWorks; ++i) {
        const int pauses = static_cast<int>(random() % 4);
        const uint64_t estimate = pauses == 0 ? 0 : kLongNs;
        queue_.Submit(
            [&, pauses] {
              EXPECT_EQ(inside.fetch_add(1), 0);
              for (int pause = 0; pause < pauses; ++pause) {
                hal::Work* const continuation = queue_.Continuation();
                if (continuation == nullptr) break;
                const size_t runner = queue_.runner();
                inside.fetch_sub(1);
                ++paused;
                queue_.Submit(continuation, kNotOnThisThread);
                queue_.Pause();
                EXPECT_EQ(inside.fetch_add(1), 0);
                EXPECT_EQ(queue_.runner(), runner);
              }
              inside.fetch_sub(1);
              if (++ended == 3 * kWorks) all.Notify();
            },
            estimate);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  all.WaitForNotification();
  Drain();
  EXPECT_GE(paused, 100);
}

}  // namespace
}  // namespace kiln::runtime::host
