// Which threads a sequencer's runs are on, and that no tenant keeps one of them.
#include <gtest/gtest.h>

#include <functional>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "server/models/sequences/sequencer.h"
#include "server/models/sequences/sequencer_fixture.h"

namespace kiln::server {
namespace {

// In which runs end as they are asked for.
class SequencerThreadsTest : public testing::Test, protected SequencerFixture {
 protected:
  std::vector<std::thread::id> RanOn() {
    absl::MutexLock lock(&mutex_);
    return ran_on_;
  }

  // A step of a sequence, and with each answer the next, as long as `more`.
  void Flood(std::function<bool()> more) {
    more_ = std::move(more);
    then_ = [this] { AskNext(); };
    Ask("1", 1, true);
  }

  absl::Notification ended_;

 private:
  void AskNext() {
    if (!more_()) return ended_.Notify();
    then_ = [this] { AskNext(); };
    Ask("1", 1);
  }

  std::function<bool()> more_;
};

TEST_F(SequencerThreadsTest, WhoBringsAStepMakesSoManyRunsAndNoMore) {
  Open();
  at_once_ = true;
  int steps = 1;
  Flood([&steps] { return steps++ < 40; });
  ended_.WaitForNotification();
  const std::vector<std::thread::id> ran_on = RanOn();
  ASSERT_EQ(ran_on.size(), 40u);
  for (size_t i = 0; i < 40; ++i) EXPECT_EQ(ran_on[i] == std::this_thread::get_id(), i < 16) << i;
  EXPECT_EQ(ran_on[39], ran_on[16]);
  asked_.back()->told.WaitForNotification();
  EXPECT_EQ(asked_.back()->text(), "40");
}

TEST_F(SequencerThreadsTest, ShortStepsWithoutEndLetOthersHaveTheirTurn) {
  Open();
  at_once_ = true;
  bool other = false;  // the thread's
  int steps = 1;
  threads_.runs.At(SteadyNow(), [&] {
    Flood([&] { return !other && steps++ < 1000; });
    threads_.runs.At(SteadyNow(), [&] { other = true; });
  });
  ended_.WaitForNotification();
  EXPECT_EQ(steps, 33);  // two turns, and the step that had been asked for
}

TEST_F(SequencerThreadsTest, AHeldRunIsNotOnTheThreadThatWatches) {
  Open(3, 3, absl::Hours(1), /*queue_delay=*/absl::Milliseconds(5));
  std::thread::id watches, runs;
  absl::Notification both;
  threads_.watch.At(SteadyNow(), [&] {
    watches = std::this_thread::get_id();
    threads_.runs.At(SteadyNow(), [&] {
      runs = std::this_thread::get_id();
      both.Notify();
    });
  });
  both.WaitForNotification();
  Ask("1", 1, true);
  Ask("2", 2, true);
  End();
  WaitForRun();
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(RanOn(), (std::vector<std::thread::id>{std::this_thread::get_id(), runs}));
  EXPECT_NE(watches, runs);
}

}  // namespace
}  // namespace kiln::server
