#include "server/fair/turns.h"

#include <atomic>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "server/fair/lane.h"
#include "server/fair/turns_fixture.h"

namespace kiln::server {
namespace {

using runtime::hal::LaunchControl;

TEST_F(TurnsTest, WhoIsAloneIsCalledAtOnce) {
  turns_->Take(At(1), Keep("a"));
  EXPECT_EQ(called_, Names{"a"});
  EndOne();
  turns_->Take(At(1), Keep("b"));
  EXPECT_EQ(called_, (Names{"a", "b"}));
  EndOne();
  EXPECT_EQ(turns_->waiting(*devices_[0]), 0u);
}

TEST_F(TurnsTest, WhoIsAlonePaysLittle) {
  constexpr int kTurns = 200'000;
  const absl::Time begin = absl::Now();
  for (int i = 0; i < kTurns; ++i) {
    turns_->Take(At(1), [](absl::StatusOr<Turn> turn) { turn->End(100); });
  }
  std::printf("%.0f ns for a turn that nobody else wants\n", absl::ToDoubleNanoseconds(absl::Now() - begin) / kTurns);
  EXPECT_EQ(turns_->waiting(*devices_[0]), 0u);
}

TEST_F(TurnsTest, ASessionsOrderIsKeptAndTheOthersComeBetween) {
  turns_->Take(At(1), Keep("a1"));
  turns_->Take(At(1), Keep("a2"));
  turns_->Take(At(1), Keep("a3"));
  turns_->Take(At(2), Keep("b1"));
  EXPECT_EQ(called_, Names{"a1"});
  while (!had_.empty()) EndOne();
  EXPECT_EQ(called_, (Names{"a1", "b1", "a2", "a3"}));
}

TEST_F(TurnsTest, TenantsHaveTheirWeights) {
  Account light, heavy;
  heavy.SetShare(3, /*interactive=*/false);
  const auto take = [&](Account& account, const std::string& name) {
    TurnRequest request = At(1);
    request.control.account = &account;
    turns_->Take(std::move(request), Keep(name));
  };
  for (int i = 0; i < 3; ++i) take(light, "light"), take(heavy, "heavy");
  int heavy_turns = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string name = had_.front().first;
    heavy_turns += name == "heavy";
    take(name == "heavy" ? heavy : light, name);
    EndOne();
  }
  EXPECT_NEAR(heavy_turns, 300, 2);
  EXPECT_EQ(light.device_ns() + heavy.device_ns(), 400'000u);
  while (!had_.empty()) EndOne();
}

TEST_F(TurnsTest, WhatWantsTwoDevicesIsCalledOnceBothAreItsOwn) {
  turns_->Take(At(1, 1000, {0}), Keep("a"));
  turns_->Take(At(1, 1000, {0}), Keep("before"));
  turns_->Take(At(1, 1000, {1, 0}), Keep("both"));
  turns_->Take(At(1, 1000, {1}), Keep("after"));
  turns_->Take(At(2, 1000, {1}), Keep("other"));
  // "both" waits for "before"; its session waits for it at the other device, and others do not.
  EXPECT_EQ(called_, (Names{"a", "other"}));
  EndOne();
  EXPECT_EQ(called_, (Names{"a", "other", "before", "both"}));
  while (!had_.empty()) EndOne();
  EXPECT_EQ(called_, (Names{"a", "other", "before", "both", "after"}));
}

TEST_F(TurnsTest, OppositeOrdersOfDevicesDoNotMeetInTheMiddle) {
  for (int i = 0; i < 3; ++i)
    turns_->Take(At(1, 1000, {0, 1}), Keep("x")), turns_->Take(At(1, 1000, {1, 0}), Keep("y"));
  while (!had_.empty()) EndOne();
  EXPECT_EQ(called_, (Names{"x", "y", "x", "y", "x", "y"}));
}

TEST_F(TurnsTest, WhoIsNotWantedAnyMoreIsToldWhileItWaits) {
  turns_->Take(At(1), Keep("a"));
  std::atomic<bool> cancelled{false};
  absl::Notification told, late;
  absl::Status first, second;
  TurnRequest request = At(2);
  request.control.cancelled = &cancelled;
  turns_->Take(std::move(request), [&](const absl::StatusOr<Turn>& turn) {
    first = turn.status();
    told.Notify();
  });
  request = At(3);
  request.guessed = true;
  request.control.deadline = absl::Now() + absl::Milliseconds(50);
  turns_->Take(std::move(request), [&](const absl::StatusOr<Turn>& turn) {
    second = turn.status();
    late.Notify();
  });
  cancelled = true;
  told.WaitForNotification();
  EXPECT_EQ(first.code(), absl::StatusCode::kCancelled);
  late.WaitForNotification();
  EXPECT_EQ(second.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(turns_->waiting(*devices_[0]), 0u);
  EXPECT_EQ(called_, Names{"a"});
  EndOne();
}

TEST_F(TurnsTest, OnlySoManyOfACallerWait) {
  for (int i = 0; i < 5; ++i) turns_->Take(At(1, 400'000'000), Keep("a"));
  turns_->Take(At(1), Keep("one more"));
  const uint32_t retry_ms = DetailOf(last_)->retry_after_ms();
  EXPECT_GE(retry_ms, 800u) << "half of what waits, and some of what runs";
  EXPECT_LE(retry_ms, 1000u);
  turns_->Take(At(2), Keep("another"));
  EXPECT_EQ(called_, (Names{"a", "one more not: RESOURCE_EXHAUSTED"}));
  EXPECT_EQ(DetailOf(last_)->limit(), "entries waiting for a device");
  EXPECT_EQ(DetailOf(last_)->limit_value(), 4u);
  // The same to whoever only asks.
  EXPECT_EQ(DetailOf(turns_->CheckRoom(*devices_[0], At(1).control))->limit(), "entries waiting for a device");
  EXPECT_TRUE(turns_->CheckRoom(*devices_[0], At(2).control).ok());
  EXPECT_TRUE(turns_->CheckRoom(*devices_[1], At(1).control).ok());
  while (!had_.empty()) EndOne();
  EXPECT_EQ(called_.size(), 7u);
}

// A turn that ends within the call that it gets, as often as one likes.
TEST_F(TurnsTest, HoweverManyEndAtOnceNoneIsCalledWithinAnother) {
  Turns turns({.cpu_budget_ns = 0, .most_waiting = 200'000}, devices_);
  std::optional<Turn> first;
  turns.Take(At(1), [&](absl::StatusOr<Turn> turn) { first = *std::move(turn); });
  constexpr int kTurns = 100'000;
  int count = 0, depth = 0, mine = 0;
  absl::Notification all;
  const std::thread::id self = std::this_thread::get_id();
  for (int i = 0; i < kTurns; ++i) {
    turns.Take(At(1), [&](absl::StatusOr<Turn> turn) {
      EXPECT_EQ(++depth, 1);
      mine += std::this_thread::get_id() == self;
      turn->End(1);
      --depth;
      if (++count == kTurns) all.Notify();
    });
  }
  first->End(1);
  all.WaitForNotification();
  // Nor does one thread call them all, and come to nothing else.
  EXPECT_GE(mine, 1);
  EXPECT_LE(mine, 100);
}

TEST_F(TurnsTest, ManyThreadsKeepTheOrderOfEach) {
  Turns turns({.cpu_budget_ns = 2000}, devices_);
  constexpr int kThreads = 4, kEach = 5000;
  std::vector<std::vector<int>> seen(kThreads);
  std::atomic<int> left{kThreads * kEach};
  absl::Notification all;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        // Some go to the device's own thread, some meet at both devices.
        TurnRequest request = At(t + 1, i % 7 == 0 ? 20'000 : 1000);
        if (i % 11 == 0) request.devices.push_back(devices_[1].get());
        turns.Take(std::move(request), [&, t, i](absl::StatusOr<Turn> turn) {
          devices_[0]->queue().Submit(
              [&, t, i, turn = *std::move(turn)]() mutable {
                seen[t].push_back(i);
                turn.End(1000);
                if (--left == 0) all.Notify();
              },
              i % 7 == 0 ? 20'000 : 0);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  all.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  for (const std::vector<int>& mine : seen) {
    ASSERT_EQ(mine.size(), kEach);
    for (int i = 0; i < kEach; ++i) ASSERT_EQ(mine[i], i);
  }
}

TEST_F(TurnsTest, ALanePassesBehindWhatItsCallerAskedFor) {
  LaunchControl control;
  control.flow = 1;
  turns_->Take(At(1), Keep("a"));
  bool passed = false;
  Lane(*turns_, *devices_[0], control).Pass([&](const absl::Status& status) { passed = status.ok(); });
  EXPECT_FALSE(passed);
  EndOne();
  EXPECT_TRUE(devices_[0]->queue().Drain(absl::InfiniteFuture()).ok());
  EXPECT_TRUE(passed);
}

// A tenant whose programs run apart: its devices are places of the server's.
class ApartTurnsTest : public TurnsTest {
 protected:
  ApartTurnsTest() {
    Make(absl::ZeroDuration());
    for (int i = 0; i < 2; ++i) own_.push_back(std::make_unique<QueueOnly>(i));
  }
  void Make(absl::Duration overdue) {
    turns_ = nullptr;
    turns_ = std::make_unique<Turns>(Turns::Options{.cpu_budget_ns = 0, .overdue = overdue}, devices_);
  }
  TurnRequest OwnAt(uint64_t flow, std::vector<int> devices = {0}) {
    TurnRequest request = At(flow, /*estimate_ns=*/1, devices);
    for (size_t i = 0; i < devices.size(); ++i) request.devices[i] = own_[devices[i]].get();
    return request;
  }
  // A turn, whoever calls.
  struct Had {
    TurnCallback Keep() {
      return [this](absl::StatusOr<Turn> got) {
        status = got.status();
        if (got.ok()) turn = *std::move(got);
        called.Notify();
      };
    }
    bool Waits() const { return !called.HasBeenNotified(); }
    absl::Status status;
    Turn turn;
    absl::Notification called;
  };

  std::vector<std::unique_ptr<runtime::hal::Device>> own_;
};

TEST_F(ApartTurnsTest, WhatIsOverdueHoldsUpItsTenantAlone) {
  Had hung, own, other;
  turns_->Take(OwnAt(1), hung.Keep());
  turns_->Take(OwnAt(1), own.Keep());
  turns_->Take(At(2), other.Keep());
  other.called.WaitForNotification();
  EXPECT_TRUE(other.status.ok());
  EXPECT_TRUE(own.Waits());
  other.turn.End(1000);
  EXPECT_TRUE(own.Waits());
  hung.turn.End(1000);
  own.called.WaitForNotification();
  own.turn.End(1000);
  EXPECT_EQ(turns_->waiting(*devices_[0]), 0u);
}

TEST_F(ApartTurnsTest, WhatIsNotOverdueOrTheServersOwnIsNot) {
  Make(absl::Hours(1));
  std::atomic<bool> cancelled{false};
  for (const bool apart : {true, false}) {
    if (!apart) Make(absl::ZeroDuration());
    Had holds, waits, told;
    turns_->Take(apart ? OwnAt(1) : At(1), holds.Keep());
    turns_->Take(At(2), waits.Keep());
    // The watch has looked when it has told one that is cancelled.
    cancelled = false;
    TurnRequest request = At(3);
    request.control.cancelled = &cancelled;
    turns_->Take(std::move(request), told.Keep());
    cancelled = true;
    told.called.WaitForNotification();
    EXPECT_TRUE(waits.Waits());
    holds.turn.End(1000);
    waits.called.WaitForNotification();
    waits.turn.End(1000);
  }
}

TEST_F(ApartTurnsTest, OneOnSeveralDevicesIsSetAsideAtAll) {
  Had hung, own, first, second, both;
  turns_->Take(OwnAt(1, {0, 1}), hung.Keep());
  turns_->Take(OwnAt(1, {1}), own.Keep());
  turns_->Take(At(2, 1000, {0, 1}), both.Keep());
  both.called.WaitForNotification();
  EXPECT_TRUE(own.Waits()) << "all its tenant's devices are";
  both.turn.End(1000);
  turns_->Take(At(2, 1000, {0}), first.Keep());
  turns_->Take(At(3, 1000, {1}), second.Keep());
  first.called.WaitForNotification();
  second.called.WaitForNotification();
  first.turn.End(1000);
  hung.turn.End(1'000'000);
  EXPECT_TRUE(own.Waits()) << "the second device is another's now";
  second.turn.End(1000);
  own.called.WaitForNotification();
  own.turn.End(1000);
}

TEST_F(ApartTurnsTest, WhoWaitsForItsOwnOverdueOneIsToldWhenItIsNotWantedAnyMore) {
  Had hung, own, other;
  turns_->Take(OwnAt(1), hung.Keep());
  turns_->Take(At(2), other.Keep());
  other.called.WaitForNotification();
  std::atomic<bool> cancelled{false};
  TurnRequest request = OwnAt(1);
  request.control.cancelled = &cancelled;
  turns_->Take(std::move(request), own.Keep());
  cancelled = true;  // as all are when a server stops, or a tenant has gone
  own.called.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(own.status));
  other.turn.End(1000);
  hung.turn.End(1000);
}

}  // namespace
}  // namespace kiln::server
