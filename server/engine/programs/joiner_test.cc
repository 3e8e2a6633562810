#include "server/engine/programs/joiner.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/synchronization/notification.h"

namespace kiln::server {
namespace {

using Answer = absl::AnyInvocable<void()>;

class JoinerTest : public ::testing::Test {
 protected:
  // One that notifies of its answer.
  static std::shared_ptr<Joiner<Answer>> WhoHears(absl::Notification& answered) {
    return std::make_shared<Joiner<Answer>>([&answered] { answered.Notify(); });
  }
  void Watch(Joiner<Answer>& joiner) {
    joiner.WatchBy(&pool_, control_, [](Answer& answer) { answer(); });
  }

  std::atomic<bool> cancelled_{false};
  const runtime::hal::LaunchControl control_ = {.cancelled = &cancelled_};
  CompilePool pool_{1};
};

TEST_F(JoinerTest, IsAnsweredOnlyWhileItIsWatched) {
  absl::Notification one_answered, other_answered;
  const auto one = WhoHears(one_answered), other = WhoHears(other_answered);
  Watch(*one);
  EXPECT_TRUE(one->StopWatch());
  cancelled_ = true;
  // The watch has looked once it has answered this one.
  Watch(*other);
  other_answered.WaitForNotification();
  EXPECT_FALSE(one_answered.HasBeenNotified());
  EXPECT_EQ(pool_.look().joined, 0u);
  Watch(*one);
  one_answered.WaitForNotification();
  EXPECT_FALSE(one->StopWatch());
  EXPECT_EQ(one->Take(), nullptr);
}

TEST_F(JoinerTest, IsWatchedNoMoreOnceItIsTaken) {
  absl::Notification answered;
  const auto one = WhoHears(answered);
  Watch(*one);
  EXPECT_EQ(pool_.look().joined, 1u);
  Answer answer = one->Take();
  EXPECT_EQ(pool_.look().joined, 0u);
  EXPECT_FALSE(answered.HasBeenNotified());
  answer();
  EXPECT_TRUE(answered.HasBeenNotified());
  Watch(*one);
  EXPECT_EQ(pool_.look().joined, 0u);
}

}  // namespace
}  // namespace kiln::server
