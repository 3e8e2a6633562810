// Steps and sequences that end otherwise than well, and what they give back.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "base/account.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/models/sequences/sequencer.h"
#include "server/models/sequences/sequencer_fixture.h"

namespace kiln::server {
namespace {

class SequencerEndsTest : public testing::Test, protected SequencerFixture {};

TEST_F(SequencerEndsTest, ARequestThatFailsChangesNothing) {
  Open();
  Ask("1", 1, true);
  End();
  Asked& failed = Ask("1", 2);
  EXPECT_EQ(End(false), 1u);
  EXPECT_EQ(failed.text(), "INTERNAL_FAULT");
  Asked& anew = Ask("1", 50, true, true);  // neither a start nor an end that fails has been
  End(false);
  EXPECT_EQ(anew.text(), "INTERNAL_FAULT");
  Asked& again = Ask("1", 2);
  End();
  EXPECT_EQ(again.text(), "3");
  Ask("2", 7, true);
  End(false);
  EXPECT_EQ(Ask("2", 7).text(), "UNKNOWN_HANDLE");  // it never began
}

TEST_F(SequencerEndsTest, OneThatFailsAmongSeveralIsNoOthersFault) {
  Open();
  Ask("1", 1, true);
  Asked& b = Ask("2", 2, true);
  Asked& c = Ask("3", 3, true);
  End();
  EXPECT_EQ(End(false), 2u);
  EXPECT_EQ(End(false), 1u);  // each alone
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(b.text(), "INTERNAL_FAULT");
  EXPECT_EQ(c.text(), "3");
  EXPECT_EQ(sequencer_->sequences(), 2u);
}

TEST_F(SequencerEndsTest, WhoIsCalledOffHasTheStateThatItHad) {
  Open();
  std::atomic<bool> off{false};
  Control control;
  control.cancelled = &off;
  Ask("1", 1, true);
  Ask("2", 2, true);
  End();
  End();
  Ask("1", 10);
  Asked& waits = Ask("2", 20, false, false, control);
  off = true;
  waits.told.WaitForNotification();
  EXPECT_EQ(waits.text(), "CALL_CANCELLED");
  End();
  EXPECT_EQ(runs(), 0u);
  off = false;
  Ask("1", 100);
  Asked& runs_with_another = Ask("2", 200, false, false, control);
  Ask("3", 3, true);
  End();
  off = true;
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(runs_with_another.text(), "CALL_CANCELLED");
  Asked& again = Ask("2", 5);
  End();
  EXPECT_EQ(again.text(), "7");
}

TEST_F(SequencerEndsTest, WhoHasGoneIsAnsweredWhileAnotherRuns) {
  Open(/*sequences=*/4, /*rows=*/3);
  std::atomic<bool> off{false};
  Control calls_off, late;
  calls_off.cancelled = &off;
  late.deadline = SteadyNow();
  Ask("1", 1, true);
  Asked& b = Ask("2", 2, true, false, calls_off);
  Asked& c = Ask("3", 3, true);
  Asked& d = Ask("4", 4, true, false, late);
  off = true;
  b.told.WaitForNotification();
  d.told.WaitForNotification();
  EXPECT_EQ(runs(), 1u);
  EXPECT_EQ(b.text(), "CALL_CANCELLED");
  EXPECT_EQ(d.text(), "DEADLINE_PASSED");
  EXPECT_EQ(sequencer_->sequences(), 2u);  // their places are free
  End();
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(c.text(), "3");
}

TEST_F(SequencerEndsTest, ARunThatAllHaveGoneFromIsStopped) {
  Open();
  std::atomic<bool> first{false}, second{false};
  Control one, other;
  one.cancelled = &first;
  other.cancelled = &second;
  Ask("1", 1, true);
  Asked& b = Ask("2", 2, true, false, one);
  Asked& c = Ask("3", 3, true, false, other);
  End();
  const std::atomic<bool>* const cancelled = FirstControl().cancelled;
  ASSERT_NE(cancelled, nullptr);
  first = true;
  EXPECT_FALSE(*cancelled);  // one is there still
  second = true;
  while (!*cancelled) std::this_thread::yield();
  EXPECT_EQ(End(false), 2u);
  b.told.WaitForNotification();
  c.told.WaitForNotification();
  EXPECT_EQ(b.text(), "CALL_CANCELLED");
  EXPECT_EQ(c.text(), "CALL_CANCELLED");
  EXPECT_EQ(runs(), 0u);
  EXPECT_EQ(sequencer_->sequences(), 1u);
}

TEST_F(SequencerEndsTest, ARunGoesOnForWhoHasTheMostTime) {
  Open();
  Control soon, later;
  soon.deadline = SteadyNow() + absl::Hours(1);
  later.deadline = SteadyNow() + absl::Hours(2);
  Ask("1", 1, true);
  Ask("2", 2, true, false, soon);
  Ask("3", 3, true, false, later);
  End();
  EXPECT_EQ(FirstControl().deadline, later.deadline);
  EXPECT_EQ(End(), 2u);
}

TEST_F(SequencerEndsTest, WhatSeveralCallersDoTogetherIsNobodysMemory) {
  Open(/*sequences=*/6, /*rows=*/2);
  Control one, other;
  one.domain = MemoryDomain::kFirst;
  other.domain = static_cast<MemoryDomain>(17);
  Ask("1", 1, true, false, one);
  Ask("2", 2, true, false, one);
  Ask("3", 3, true, false, one);
  Ask("4", 4, true, false, other);
  Ask("5", 5, true, false, one);
  EXPECT_EQ(FirstControl().domain, one.domain);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(FirstControl().domain, one.domain);
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(FirstControl().domain, MemoryDomain::kNobody);
  EXPECT_EQ(End(), 2u);
}

TEST_F(SequencerEndsTest, WhatARunWasPaidForPaysForItsAnswers) {
  Open();
  Account& payer = accounts_[0];
  Control control;
  control.account = &payer;
  std::atomic<bool> off{false};
  Control calls_off = control;
  calls_off.cancelled = &off;
  Ask("1", 1, true, false, control);
  Asked& b = Ask("2", 2, true, false, calls_off);
  Asked& c = Ask("3", 3, true, false, control);
  Asked& d = Ask("4", 4, true, false, control);
  EXPECT_EQ(d.text(), "OUT_OF_MEMORY");
  End();
  Asked& e = Ask("1", 10, false, false, control);
  QuotaLimits limits = {};
  limits[static_cast<size_t>(Quota::kHostBytes)] =
      2 * (2 * 4) + 2 * 4;  // two rows' answers, as result and as message; and x
  payer.SetLimits(limits);
  off = true;
  EXPECT_EQ(End(true, *Hold(&payer, Quota::kHostBytes, 2 * (2 * 4))), 2u);
  EXPECT_EQ(b.text(), "CALL_CANCELLED");
  EXPECT_EQ(c.text(), "3");
  EXPECT_EQ(c.result->batch, 2);  // the run counts, though its first step was called off
  EXPECT_EQ(payer.used(Quota::kHostBytes), 2u * 4u);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(e.text(), "11");
  off = false;
  Ask("1", 1, false, false, control);
  Asked& f = Ask("2", 2, true, false, calls_off);
  Asked& g = Ask("3", 7, false, false, control);
  End();
  c.result = absl::UnknownError("it has gone, and its charge with it");
  EXPECT_EQ(End(true, *Hold(&payer, Quota::kHostBytes, 2 * (2 * 4))), 2u);
  EXPECT_EQ(f.text(), "2");  // there was room for the whole, and so there is for its parts
  EXPECT_EQ(g.text(), "10");
  EXPECT_EQ(f.result->batch, 2);
  EXPECT_EQ(g.result->batch, 0);
  EXPECT_EQ(payer.used(Quota::kHostBytes), 2u * (2 * 4));
}

TEST_F(SequencerEndsTest, WhatCopiesAreMadeOfIsPaidForWhileTheyAreThere) {
  Open();
  Account& payer = accounts_[0];
  Control control;
  control.account = &payer;
  Ask("1", 1, true, false, control);
  Asked& b = Ask("2", 2, true, false, control);
  Asked& c = Ask("3", 3, true, false, control);
  End();
  EXPECT_EQ(payer.used(Quota::kHostBytes), 2u * 4u);
  EXPECT_EQ(End(), 2u);
  EXPECT_EQ(b.text(), "2");
  b.result = absl::UnknownError("gone, and its charge");
  c.result = absl::UnknownError("gone, and its charge");
  EXPECT_EQ(payer.used(Quota::kHostBytes), 0u);
  // Where there is no room for them, none are made.
  Ask("1", 1, false, false, control);
  Asked& d = Ask("2", 20, false, false, control);
  Asked& e = Ask("3", 30, false, false, control);
  QuotaLimits limits = {};
  limits[static_cast<size_t>(Quota::kHostBytes)] = 7;
  payer.SetLimits(limits);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(payer.used(Quota::kHostBytes), 0u);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(d.text(), "22");
  EXPECT_EQ(e.text(), "33");
}

TEST_F(SequencerEndsTest, TenantsShareNothing) {
  Open(/*sequences=*/1, /*rows=*/1);
  Account &a = accounts_[0], &b = accounts_[1];
  Control of_a, of_b;
  of_a.account = &a;
  of_b.account = &b;
  Ask("1", 1, true, false, of_a);
  EXPECT_EQ(Ask("1", 1, false, false, of_b).text(), "UNKNOWN_HANDLE");
  Ask("1", 1, true, false, of_b);
  EXPECT_EQ(runs(), 2u);  // not together, and neither waits
  End();
  End();
  EXPECT_EQ(a.used(Quota::kDeviceBytes), 8u);
  EXPECT_EQ(b.used(Quota::kDeviceBytes), 8u);
  Ask("1", 1, false, true, of_a);
  End();
  EXPECT_EQ(a.used(Quota::kDeviceBytes), 0u);
  EXPECT_EQ(b.used(Quota::kDeviceBytes), 8u);
  QuotaLimits limits = {};
  limits[static_cast<size_t>(Quota::kDeviceBytes)] = 7;
  a.SetLimits(limits);
  EXPECT_EQ(Ask("2", 1, true, false, of_a).text(), "QUOTA_EXCEEDED");
  EXPECT_EQ(runs(), 0u);
}

TEST_F(SequencerEndsTest, ATenantThatHasGoneHasNoneWhenItsNameComesBack) {
  Open(3, 3, absl::Hours(1), /*queue_delay=*/absl::Hours(1));
  Control of_a, of_b;
  of_a.account = &accounts_[0];
  of_b.account = &accounts_[1];
  Ask("1", 1, true, false, of_a);
  Ask("1", 10, true, false, of_b);
  Ask("1", 100, true);  // where there are no tenants
  EXPECT_EQ(End() + End() + End(), 3u);
  EXPECT_EQ(accounts_[0].used(Quota::kDeviceBytes), 24u);
  sequencer_->KeepOnly({"b"});
  EXPECT_EQ(accounts_[0].used(Quota::kDeviceBytes), 0u);
  EXPECT_EQ(Ask("1", 2, false, false, of_a).text(), "UNKNOWN_HANDLE");
  EXPECT_EQ(sequencer_->sequences(), 2u);
  Ask("1", 20, false, false, of_b);
  EXPECT_EQ(End(), 1u);
  // What is under way, or waits, is answered; and then there is nothing of it.
  Asked& d = Ask("1", 5, true, false, of_a);
  Asked& e = Ask("2", 6, true, false, of_a);
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(d.text(), "5");
  EXPECT_EQ(runs(), 0u);  // "2" waits for "1"
  sequencer_->KeepOnly({"b"});
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(e.text(), "6");
  EXPECT_EQ(accounts_[0].used(Quota::kDeviceBytes), 0u);
  Asked& f = Ask("1", 7, true, false, of_a);
  sequencer_->KeepOnly({"b"});
  EXPECT_EQ(Ask("1", 7, false, false, of_a).text(), "UNKNOWN_HANDLE");
  EXPECT_EQ(End(), 1u);
  EXPECT_EQ(f.text(), "7");
  EXPECT_EQ(accounts_[0].used(Quota::kDeviceBytes), 0u);
  EXPECT_EQ(accounts_[1].used(Quota::kDeviceBytes), 24u);
}

TEST_F(SequencerEndsTest, TheLastOneGivesTheMemoryBack) {
  Open();
  Ask("1", 1, true);
  EXPECT_EQ(InMemory(), kPoolBytes);
  Ask("2", 1, true);
  End();
  End();
  Ask("1", 1, false, true);
  End();
  EXPECT_EQ(InMemory(), kPoolBytes);
  Ask("2", 1, false, true);
  End();
  EXPECT_EQ(InMemory(), 0u);
  Ask("1", 1, true);
  End(false);
  EXPECT_EQ(InMemory(), 0u);
}

TEST_F(SequencerEndsTest, WhoIsToldOfTheEndMayBeginAgainAtOnce) {
  Open();
  Account& payer = accounts_[0];
  QuotaLimits limits = {};
  limits[static_cast<size_t>(Quota::kDeviceBytes)] = 6 * 4;  // one pool
  payer.SetLimits(limits);
  Control control;
  control.account = &payer;
  uint64_t held = 0;
  for (const bool well : {true, false}) {
    held = 1;
    Asked* again = nullptr;
    Asked& only = Ask("1", 1, true, true, control);
    then_ = [&] {
      held = payer.used(Quota::kDeviceBytes);
      again = &Ask("2", 5, true, true, control);
    };
    End(well);
    EXPECT_EQ(only.text(), well ? "1" : "INTERNAL_FAULT");
    EXPECT_EQ(held, 0u);
    EXPECT_EQ(End(), 1u);
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->text(), "5");
  }
  at_once_ = true;  // before the one that asks is back
  Ask("1", 1, true, false, control);
  EXPECT_EQ(payer.used(Quota::kDeviceBytes), 24u);
  held = 1;
  then_ = [&] { held = payer.used(Quota::kDeviceBytes); };
  EXPECT_EQ(Ask("1", 2, false, true, control).text(), "3");
  EXPECT_EQ(held, 0u);
}

TEST_F(SequencerEndsTest, AModelThatGoesGivesAllBack) {
  Open();
  Ask("1", 1, true);
  End();
  EXPECT_EQ(InMemory(), kPoolBytes);
  sequencer_.reset();
  EXPECT_EQ(InMemory(), 0u);
}

TEST_F(SequencerEndsTest, IdleOnesEnd) {
  Open(3, 3, /*idle=*/absl::Milliseconds(20));
  Ask("1", 1, true);
  Ask("2", 1, true);
  End();
  EXPECT_EQ(InMemory(), kPoolBytes);
  for (int i = 0; i < 60000 && sequencer_->sequences() > 1; ++i) bell_.Wait(absl::Milliseconds(1));
  EXPECT_EQ(sequencer_->sequences(), 1u);  // a run is under way for the other
  EXPECT_EQ(Ask("1", 1).text(), "UNKNOWN_HANDLE");
  End();
  for (int i = 0; i < 60000 && InMemory() > 0; ++i) bell_.Wait(absl::Milliseconds(1));
  EXPECT_EQ(sequencer_->sequences(), 0u);
  EXPECT_EQ(InMemory(), 0u);
}

}  // namespace
}  // namespace kiln::server
