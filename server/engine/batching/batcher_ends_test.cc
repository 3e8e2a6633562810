// Requests and runs that end otherwise than well: cancelled, late, failed, at once, or not at all.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/account.h"
#include "base/error.h"
#include "server/engine/batching/batcher.h"
#include "server/engine/batching/batcher_fixture.h"

namespace kiln::server {
namespace {

class BatcherTest : public ::testing::Test, protected BatcherFixture {};

TEST_F(BatcherTest, WhoHasGoneIsAnsweredWhileAnotherRuns) {
  std::atomic<bool> cancelled{false};
  Control control, late;
  control.cancelled = &cancelled;
  late.deadline = SteadyNow();
  Ask("a");
  Member &b = Ask("b", control), &c = Ask("c"), &d = Ask("d", late);
  cancelled = true;
  b.told.WaitForNotification();
  d.told.WaitForNotification();
  EXPECT_EQ(b.result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(d.result.status().code(), absl::StatusCode::kDeadlineExceeded);
  End("a");
  End("c");
  EXPECT_EQ(c.text(), "cc z");
}

TEST_F(BatcherTest, ARunOfThoseThatHaveGoneIsStopped) {
  std::atomic<bool> first{false}, second{false};
  Control one, other;
  one.cancelled = &first;
  other.cancelled = &second;
  Ask("a");
  Member &b = Ask("b", one), &c = Ask("c", other);
  End("a");
  ASSERT_NE(cancelled_, nullptr);
  first = true;
  EXPECT_FALSE(*cancelled_);  // one is there still
  second = true;
  while (!*cancelled_) std::this_thread::yield();
  First().done(MakeError(v1::CALL_CANCELLED, "stopped"));
  EXPECT_EQ(b.result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(c.result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(asked_.empty());
}

TEST_F(BatcherTest, GoesOnForWhoHasTheMostTime) {
  Control soon, late;
  soon.deadline = SteadyNow() + absl::Hours(1);
  late.deadline = SteadyNow() + absl::Hours(2);
  Ask("a");
  Ask("b", soon);
  Ask("c", late);
  End("a");
  ASSERT_EQ(deadlines_.size(), 2u);
  EXPECT_EQ(deadlines_[1], late.deadline);
  End("bc");
}

TEST_F(BatcherTest, AFailureIsNotTheOthers) {
  Ask("a");
  Member &b = Ask("b"), &c = Ask("c");
  End("a");
  Member& d = Ask("d");
  ASSERT_EQ(XOf(asked_[0]).data, "bc");
  First().done(MakeError(v1::OUT_OF_MEMORY, "no room"));
  End("b");
  EXPECT_EQ(b.text(), "bb z");
  EXPECT_EQ(b.batch(), 1);
  ASSERT_EQ(XOf(asked_[0]).data, "c");
  First().done(MakeError(v1::OUT_OF_MEMORY, "no room"));
  EXPECT_EQ(c.text(), "no room");
  End("d");
  EXPECT_EQ(d.text(), "dd z");
}

TEST_F(BatcherTest, RunsThatEndAtOnceAreNoRecursion) {
  Ask("a");
  at_once_ = true;
  for (int i = 0; i < 1000; ++i) Ask("bcde");  // four rows: each by itself
  End("a");
  for (const auto& member : members_) {
    member->told.WaitForNotification();
    ASSERT_TRUE(member->result.ok());
  }
}

TEST_F(BatcherTest, ARunThatDoesNotComeOnHoldsUpNobody) {
  Batcher batcher([this](ExecuteRequest request, const Control& control,
                         ExecuteCallback done) { Begin(request, control, std::move(done)); },
                  &buffers_, &metrics_, absl::ZeroDuration());
  Member& a = Ask("a", {}, 1, &batcher);
  Ask("b", {}, 1, &batcher);
  const auto runs = [this] {
    absl::MutexLock lock(&mutex_);
    return asked_.size();
  };
  while (runs() < 2) std::this_thread::yield();
  std::swap(asked_[0], asked_[1]);
  End("b");
  EXPECT_FALSE(a.told.HasBeenNotified());
  End("a");
  EXPECT_EQ(a.text(), "aa z");
}

TEST_F(BatcherTest, WhoPaysForAnAnswerThatIsTooMuchIsRefusedAlone) {
  Account payer;
  Control control;
  control.account = &payer;
  QuotaLimits limits = {};
  Ask("a", control);
  Member &b = Ask("b", control), &c = Ask("c", control);
  End("a");
  Asked run = First();
  ExecuteResult result;
  result.results.resize(2);
  result.results[0].data = "bbcc";
  result.results[0].shape = {4, 1};
  result.results[1].index = 1;
  result.charge = *Hold(&payer, Quota::kHostBytes, 80);
  limits[static_cast<size_t>(Quota::kHostBytes)] = 10;  // each takes twice its three bytes
  payer.SetLimits(limits);
  run.done(std::move(result));
  EXPECT_TRUE(b.result.ok());
  EXPECT_EQ(c.result.status().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace kiln::server
