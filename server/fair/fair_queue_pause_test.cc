// Entries that pause, and come back.
#include "gtest/gtest.h"
#include "server/fair/fair_queue.h"

namespace kiln::server {
namespace {

// One at a time: what runs is served, and has its session open.
class PausingQueue : public ::testing::Test {
 protected:
  void Push(FairQueue::Entry& entry, uint64_t tenant, uint64_t estimate_ns, uint64_t session = 1) {
    queue_.Push(entry, {.tenant = tenant, .session = session}, estimate_ns);
  }
  FairQueue::Entry* Pop() {
    const FairQueue::Served served = queue_.Pop();
    if (served.entry != nullptr) queue_.Open(served.session);
    return served.entry;
  }
  FairQueue queue_{{.budget_ns = 100}};
};

TEST_F(PausingQueue, OneThatPausesComesBackByItsTenantsPart) {
  FairQueue::Entry longest, behind, small[6];
  Push(longest, 1, 10'000);
  EXPECT_EQ(Pop(), &longest);
  Push(behind, 1, 50);
  for (FairQueue::Entry& each : small) Push(each, 2, 300);
  EXPECT_TRUE(queue_.Pause(longest, 1000));
  EXPECT_EQ(queue_.in_flight(), 0u);
  // The other tenant has as much; then it is the first one's turn, with the one that paused before what is behind it.
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(Pop(), &small[i]);
    queue_.End(small[i], 300);
  }
  EXPECT_EQ(Pop(), &longest);
  EXPECT_EQ(Pop(), nullptr);
  EXPECT_FALSE(queue_.Pause(longest, 100)) << "it is still its own turn";
  EXPECT_TRUE(queue_.Pause(longest, 400));
  EXPECT_EQ(Pop(), &small[4]);
  queue_.End(small[4], 300);
  EXPECT_EQ(Pop(), &longest);
  queue_.End(longest, 10);
  // 1510 to 1500.
  EXPECT_EQ(Pop(), &small[5]);
  queue_.End(small[5], 300);
  EXPECT_EQ(Pop(), &behind);
  queue_.End(behind, 50);
  EXPECT_FALSE(queue_.contended());
}

TEST_F(PausingQueue, AnotherTenantWaitsForOneThatPausesNoLongerThanASlice) {
  const FairOwner same = {.tenant = 1, .session = 2}, other = {.tenant = 2, .session = 1};
  FairQueue::Entry longest, next;
  queue_.Push(longest, {.tenant = 1, .session = 1}, 10'000, /*joint=*/false, {.slice_ns = 1000});
  EXPECT_EQ(queue_.PredictedWait(same), 10'000u) << "it is not with the device yet";
  EXPECT_EQ(Pop(), &longest);
  EXPECT_EQ(queue_.PredictedWait(other), 1000u);
  EXPECT_EQ(queue_.PredictedWait(other, 400), 600u);
  EXPECT_EQ(queue_.PredictedWait(other, 2000), 0u);
  EXPECT_EQ(queue_.PredictedWait(same), 10'000u) << "it does not pause for its own";
  EXPECT_EQ(queue_.LongestWait(0), 10'000u);
  Push(next, 2, 50);
  EXPECT_TRUE(queue_.Pause(longest, 1000));
  EXPECT_EQ(Pop(), &next);
  EXPECT_EQ(queue_.PredictedWait(other), 50u) << "it comes before the rest of that";
  queue_.End(next, 50);
  EXPECT_EQ(Pop(), &longest);
  queue_.End(longest, 9000);
  EXPECT_EQ(queue_.PredictedWait(other), 0u);
  EXPECT_EQ(queue_.LongestWait(0), 0u);
}

TEST_F(PausingQueue, NothingElseOfItsTenantComesWhileItHasPaused) {
  FairQueue::Entry longest, own, other;
  Push(longest, 1, 10'000, 1);
  EXPECT_EQ(Pop(), &longest);
  Push(own, 1, 10, 2);
  Push(other, 2, 50'000);
  EXPECT_TRUE(queue_.Pause(longest, 1000));
  EXPECT_EQ(Pop(), &other);
  queue_.End(other, 50'000);
  EXPECT_EQ(Pop(), &longest) << "not the other session, though that has had nothing";
  queue_.End(longest, 1000);
  EXPECT_EQ(Pop(), &own);
  queue_.End(own, 10);
}

TEST_F(PausingQueue, OneWithOthersOfItsTenantBehindItAtTheDeviceGoesOn) {
  FairQueue::Entry first, second, other;
  Push(first, 1, 40);
  Push(second, 1, 40);
  EXPECT_EQ(Pop(), &first);
  EXPECT_EQ(Pop(), &second);
  Push(other, 2, 10);
  EXPECT_TRUE(queue_.contended());
  EXPECT_FALSE(queue_.Pause(first, 5000));
  queue_.End(first, 10);
  EXPECT_TRUE(queue_.Pause(second, 10));
  EXPECT_EQ(Pop(), &other);
  queue_.End(other, 10);
  EXPECT_EQ(Pop(), &second);
  queue_.End(second, 0);
}

TEST_F(PausingQueue, OneThatWasThoughtSmallLetsThoseBehindItAtTheDevicePass) {
  FairQueue::Entry first, behind;
  Push(first, 1, 40);
  Push(behind, 2, 40);
  EXPECT_EQ(Pop(), &first);
  EXPECT_EQ(Pop(), &behind);
  EXPECT_TRUE(queue_.contended());
  EXPECT_TRUE(queue_.Pause(first, 5000));
  EXPECT_EQ(Pop(), nullptr) << "the other is under way";
  queue_.End(behind, 40);
  EXPECT_EQ(Pop(), &first);
  queue_.End(first, 0);
}

// Its session is closed until it has been handed on, which may be long after it has begun.
TEST_F(PausingQueue, OneThatIsStillBeingHandedOnPausesForOthersAlone) {
  FairQueue::Entry longest, other;
  Push(longest, 1, 10'000);
  const FairQueue::Served served = queue_.Pop();
  EXPECT_EQ(served.entry, &longest);
  EXPECT_FALSE(queue_.Pause(longest, 1000)) << "nobody waits";
  Push(other, 2, 10);
  EXPECT_TRUE(queue_.Pause(longest, 1000));
  EXPECT_EQ(Pop(), &other);
  queue_.End(other, 10);
  EXPECT_EQ(Pop(), nullptr) << "not before it has been handed on";
  queue_.Open(served.session);
  EXPECT_EQ(Pop(), &longest);
  queue_.End(longest, 10);
  EXPECT_EQ(queue_.waiting(), 0u);
}

// Runs look at clocks while they may have to pause: they never do for their own tenant's.
TEST_F(PausingQueue, OnlyAnotherTenantContends) {
  FairQueue::Entry first, second, other;
  Push(first, 1, 10'000);
  EXPECT_EQ(Pop(), &first);
  Push(second, 1, 10'000, /*session=*/2);
  EXPECT_FALSE(queue_.contended()) << "its own";
  Push(other, 2, 10);
  EXPECT_TRUE(queue_.contended());
  queue_.Open(queue_.Remove(other));
  EXPECT_FALSE(queue_.contended()) << "it has gone";
  queue_.Push(other, {.tenant = 2, .session = 1}, 10);
  EXPECT_TRUE(queue_.Pause(first, 1000));
  EXPECT_TRUE(queue_.contended()) << "the first waits for what is left of it";
  EXPECT_EQ(Pop(), &other);
  EXPECT_TRUE(queue_.contended());
  queue_.End(other, 10);
  EXPECT_FALSE(queue_.contended());
  EXPECT_EQ(Pop(), &first);
  queue_.End(first, 10);
  EXPECT_EQ(Pop(), &second);
  queue_.End(second, 10);
  EXPECT_FALSE(queue_.contended());
}

// It is all that there is, and its session is still closed: what it was thought to take is not what it has had.
TEST_F(PausingQueue, WhoComesIsNotBehindAllThatOneThatWentOnWasThoughtToTake) {
  FairQueue::Entry longest, other;
  Push(longest, 1, 10'000);
  const FairQueue::Served served = queue_.Pop();
  EXPECT_FALSE(queue_.Pause(longest, 1000)) << "nobody waits";
  queue_.Open(served.session);
  Push(other, 2, 10);
  EXPECT_TRUE(queue_.Pause(longest, 1000)) << "it has had 2000 by now, and the other nothing";
  EXPECT_EQ(Pop(), &other);
  queue_.End(other, 10);
  EXPECT_EQ(Pop(), &longest);
  queue_.End(longest, 10);
}

// One that had its turn here, and is not wanted any more before the others' turn came.
TEST_F(PausingQueue, AJointOneThatIsGoneIsNotWithTheDevice) {
  FairQueue::Entry joint, longest, other;
  queue_.Push(joint, {.tenant = 1, .session = 1}, 10, /*joint=*/true);
  EXPECT_EQ(queue_.Pop().entry, &joint);
  queue_.Open(queue_.Remove(joint));
  Push(longest, 1, 10'000);
  EXPECT_EQ(Pop(), &longest);
  Push(other, 2, 10);
  EXPECT_TRUE(queue_.Pause(longest, 1000));
  EXPECT_EQ(Pop(), &other);
  queue_.End(other, 10);
  EXPECT_EQ(Pop(), &longest);
  queue_.End(longest, 10);
}

TEST_F(PausingQueue, OneThatIsNotWantedAnyMoreGoesOnAtOnce) {
  FairQueue::Entry longest, other, last;
  Push(longest, 1, 10'000);
  EXPECT_EQ(Pop(), &longest);
  Push(other, 2, 50'000);
  EXPECT_TRUE(queue_.Pause(longest, 1000));
  EXPECT_EQ(Pop(), &other);
  queue_.Open(queue_.Rush(longest));
  EXPECT_EQ(queue_.in_flight(), 2u);
  queue_.End(other, 50'000);
  queue_.End(longest, 0);
  Push(last, 1, 10);
  EXPECT_EQ(Pop(), &last);
  queue_.End(last, 10);
  EXPECT_EQ(queue_.waiting(), 0u);
  EXPECT_EQ(queue_.in_flight(), 0u);
}

}  // namespace
}  // namespace kiln::server
