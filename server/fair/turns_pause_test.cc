// Runs of tenants that pause for others', on queues that are real.
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "gtest/gtest.h"
#include "runtime/drivers/null/device.h"
#include "server/fair/turns.h"

namespace kiln::server {
namespace {

constexpr uint64_t kLongNs = 1'000'000'000;

class TurnsPauseTest : public ::testing::Test {
 protected:
  TurnsPauseTest() {
    for (int i = 0; i < 2; ++i) {
      devices_.push_back(
          *runtime::null::CreateDevice({.name = absl::StrCat("CPU:", i), .memory_limit_bytes = 1 << 20}));
    }
    Make(absl::ZeroDuration());
  }
  ~TurnsPauseTest() override { runtime::hal::DrainAll(devices_); }
  void Make(absl::Duration slice) {
    turns_ = nullptr;
    turns_ = std::make_unique<Turns>(Turns::Options{.slice = slice}, devices_);
  }

  // Takes a turn, and does `work` within its device's queue.
  void Run(Account* account, absl::AnyInvocable<void(runtime::hal::Interruption*)> work, std::vector<int> devices = {0},
           const std::atomic<bool>* cancelled = nullptr, uint64_t estimate_ns = kLongNs) {
    TurnRequest request;
    request.control.account = account;
    request.control.flow = 1;
    request.control.cancelled = cancelled;
    for (const int device : devices) request.devices.push_back(devices_[device].get());
    request.estimate_ns = estimate_ns;
    runtime::hal::Queue& queue = devices_[devices[0]]->queue();
    turns_->Take(std::move(request), [&queue, work = std::move(work)](absl::StatusOr<Turn> turn) mutable {
      ASSERT_TRUE(turn.ok()) << turn.status();
      queue.Submit(
          [turn = *std::move(turn), work = std::move(work)]() mutable {
            work(turn.interruption());
            turn.End();
          },
          kLongNs);
    });
  }
  // Gives way until that is so.
  static void GiveWayUntil(runtime::hal::Interruption* interruption, const std::atomic<bool>& so) {
    ASSERT_NE(interruption, nullptr);
    while (!so) {
      if (interruption->due()) interruption->GiveWay();
    }
  }
  uint64_t MeasuredOf(int device = 0) {
    uint64_t sum = 0;
    for (const uint64_t each : turns_->Look(*devices_[device]).measured_ns) sum += each;
    return sum;
  }

  Account a_, b_, c_;
  std::vector<std::unique_ptr<runtime::hal::Device>> devices_;
  std::unique_ptr<Turns> turns_;
};

// Each waits for the other to have gone on: neither would end before the other if it did not pause.
TEST_F(TurnsPauseTest, TwoLongOnesGoOnByTurns) {
  std::atomic<int> steps[2] = {0, 0};
  absl::Notification ended[2];
  const auto run = [&](Account& account, int self) {
    Run(&account, [&, self](runtime::hal::Interruption* interruption) {
      for (int i = 1; i <= 50; ++i) {
        steps[self] = i;
        while (steps[1 - self] < i) {
          if (interruption->due()) interruption->GiveWay();
        }
      }
      // The last one out would find nobody to give way to.
      steps[self] = 51;
      EXPECT_GT(interruption->away(), absl::ZeroDuration());
      ended[self].Notify();
    });
  };
  run(a_, 0);
  run(b_, 1);
  for (absl::Notification& each : ended) each.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_EQ(turns_->waiting(*devices_[0]), 0u);
  EXPECT_GT(a_.device_ns(), 0u);
  EXPECT_EQ(MeasuredOf(), a_.device_ns() + b_.device_ns());
}

TEST_F(TurnsPauseTest, WhatOthersHadIsNotCountedAsItsOwn) {
  std::atomic<bool> over{false};
  absl::Notification ended;
  absl::Duration away, all;
  Run(&a_, [&](runtime::hal::Interruption* interruption) {
    const absl::Time begin = SteadyNow();
    GiveWayUntil(interruption, over);
    away = interruption->away();
    all = SteadyNow() - begin;
    ended.Notify();
  });
  Run(&b_, [&](runtime::hal::Interruption*) {
    absl::SleepFor(absl::Milliseconds(30));
    over = true;
  });
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_GE(away, absl::Milliseconds(30));
  EXPECT_GE(b_.device_ns(), 30'000'000u);
  EXPECT_GE(all, away);
  EXPECT_GE(absl::Nanoseconds(a_.device_ns()) + absl::Milliseconds(1), all - away);
  EXPECT_EQ(MeasuredOf(), a_.device_ns() + b_.device_ns());
}

// The system takes the cores away from a run while another tenant waits. The tenant does not pay for that time.
TEST_F(TurnsPauseTest, ForHowLongItStoodStillIsNotItsTime) {
  constexpr absl::Duration kStill = absl::Milliseconds(30);
  std::atomic<bool> over{false};
  absl::Notification ended;
  absl::Duration paused;  // its first slice
  const absl::Time begin = SteadyNow();
  Run(&a_, [&](runtime::hal::Interruption* interruption) {
    while (!interruption->asked()) {
    }
    interruption->BeginWork();
    absl::SleepFor(kStill);
    GiveWayUntil(interruption, over);
    paused = absl::Nanoseconds(MeasuredOf() - b_.device_ns());
    absl::SleepFor(kStill);  // nobody waits any more
    interruption->EndWork();
    EXPECT_GE(interruption->cores().kept(), kStill - absl::Milliseconds(1));
    ended.Notify();
  });
  Run(&b_, [&](runtime::hal::Interruption*) { over = true; });
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  const absl::Duration passed = SteadyNow() - begin;
  EXPECT_LE(paused, passed - 2 * kStill);
  EXPECT_LE(absl::Nanoseconds(a_.device_ns()), passed - kStill + absl::Milliseconds(1));
  EXPECT_GE(absl::Nanoseconds(a_.device_ns()), kStill) << "while nobody waits, it counts by the clock";
  EXPECT_EQ(MeasuredOf(), a_.device_ns() + b_.device_ns());
}

// What is seen of one that others look at as it goes on: nothing before it has begun, and from then on never less.
TEST_F(TurnsPauseTest, WhatIsSeenOfARunDoesNotFallAsItEnds) {
  absl::Notification ended;
  uint64_t before = 1, within = 0, after = 0, later = 0;
  Run(&a_, [&](runtime::hal::Interruption* interruption) {
    while (!interruption->asked()) {
    }
    before = MeasuredOf();
    interruption->BeginWork();
    while (interruption->cores().SoFar() < absl::Milliseconds(2)) {
    }
    within = MeasuredOf();
    interruption->EndWork();
    after = MeasuredOf();
    absl::SleepFor(absl::Milliseconds(5));  // no work of its own any more
    later = MeasuredOf();
    ended.Notify();
  });
  Run(&b_, [](runtime::hal::Interruption*) {});
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_EQ(before, 0u);
  EXPECT_GE(within, 2'000'000u);
  EXPECT_GE(after, within);
  EXPECT_EQ(later, after);
  EXPECT_GE(a_.device_ns(), after);
}

// Two that were thought small are with the device at once, and the time of the first is not the second's.
TEST_F(TurnsPauseTest, WhatWasBeforeItAtTheDeviceIsNotCountedAsItsOwn) {
  std::atomic<bool> both{false}, over{false};
  absl::Notification ended;
  absl::Time first_ended;
  Run(
      &a_,
      [&](runtime::hal::Interruption*) {
        while (!both) {
        }
        absl::SleepFor(absl::Milliseconds(30));
        first_ended = SteadyNow();
      },
      {0}, nullptr, 1000);
  Run(
      &b_,
      [&](runtime::hal::Interruption* interruption) {
        GiveWayUntil(interruption, over);
        // By its own clock its turn began before the other's end.
        const uint64_t own_ns = MeasuredOf() - a_.device_ns() - c_.device_ns();
        EXPECT_LE(absl::Nanoseconds(own_ns), SteadyNow() - first_ended - interruption->away());
        ended.Notify();
      },
      {0}, nullptr, 1000);
  Run(&c_, [&](runtime::hal::Interruption*) { over = true; }, {0}, nullptr, 1000);
  both = true;
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_GE(a_.device_ns(), 30'000'000u);
}

// The thread that hands a run on has lost its core before it could say that it has, and the run, on another, has not.
TEST_F(TurnsPauseTest, OneThatIsStillBeingHandedOnLetsOthersPass) {
  std::atomic<bool> over{false};
  absl::Notification handed_on, other_ran, ended;
  bool in_time = false;
  std::thread handing([&] {
    TurnRequest request;
    request.control.account = &a_;
    request.control.flow = 1;
    request.devices = {devices_[0].get()};
    request.estimate_ns = kLongNs;
    turns_->Take(std::move(request), [&](absl::StatusOr<Turn> turn) {
      ASSERT_TRUE(turn.ok()) << turn.status();
      devices_[0]->queue().Submit(
          [&, turn = *std::move(turn)]() mutable {
            GiveWayUntil(turn.interruption(), over);
            turn.End();
            ended.Notify();
          },
          kLongNs);
      handed_on.Notify();
      in_time = other_ran.WaitForNotificationWithTimeout(absl::Seconds(20));
      over = true;
    });
  });
  handed_on.WaitForNotification();
  Run(&b_, [&](runtime::hal::Interruption*) { other_ran.Notify(); });
  handing.join();
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_TRUE(in_time);
  EXPECT_EQ(turns_->waiting(*devices_[0]), 0u);
}

// A run of an hour has the device: another tenant's request that has a minute is let wait, as the run will pause for
// it.
TEST_F(TurnsPauseTest, WhoNeedsAPauseToBeInTimeIsLetWait) {
  std::atomic<bool> asked{false}, over{false};
  absl::Notification ended;
  Run(
      &a_,
      [&](runtime::hal::Interruption* interruption) {
        while (!asked) {
        }
        GiveWayUntil(interruption, over);
        ended.Notify();
      },
      {0}, nullptr, 3600 * kLongNs);
  const auto ask = [&](Account* account, TurnCallback go) {
    TurnRequest request;
    request.control.account = account;
    request.control.flow = 2;
    request.control.deadline = SteadyNow() + absl::Minutes(1);
    request.devices = {devices_[0].get()};
    request.estimate_ns = 1000;
    turns_->Take(std::move(request), std::move(go));
  };
  absl::Status own;
  ask(&a_, [&](const absl::StatusOr<Turn>& turn) { own = turn.status(); });
  EXPECT_TRUE(absl::IsDeadlineExceeded(own)) << own;
  absl::Status other = absl::UnknownError("not called");
  ask(&b_, [&](absl::StatusOr<Turn> turn) {
    other = turn.status();
    if (turn.ok()) turn->End(1000);
    over = true;
  });
  asked = true;
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_TRUE(other.ok()) << other;
}

TEST_F(TurnsPauseTest, ATenantDoesNotPauseForItself) {
  std::atomic<bool> own{false}, other{false};
  absl::Notification ended;
  Run(&a_, [&](runtime::hal::Interruption* interruption) {
    GiveWayUntil(interruption, other);
    EXPECT_FALSE(own) << "one would see what the other has half done";
  });
  Run(&a_, [&](runtime::hal::Interruption*) {
    own = true;
    ended.Notify();
  });
  Run(&b_, [&](runtime::hal::Interruption*) { other = true; });
  ended.WaitForNotification();
  EXPECT_TRUE(other);
  runtime::hal::DrainAll(devices_);
}

TEST_F(TurnsPauseTest, WhoHasNoAccountOrSeveralDevicesKeepsThem) {
  absl::Notification ended;
  int seen = 0;
  Run(nullptr, [&](runtime::hal::Interruption* interruption) { seen += interruption == nullptr; });
  Run(&a_,
      [&](runtime::hal::Interruption* interruption) {
        seen += interruption == nullptr;
        ended.Notify();
      },
      {0, 1});
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_EQ(seen, 2);
}

TEST_F(TurnsPauseTest, ASliceLasts) {
  Make(absl::Hours(1));
  std::atomic<bool> waits{false};
  absl::Notification ended;
  Run(&a_, [&](runtime::hal::Interruption* interruption) {
    while (!waits) {
    }
    EXPECT_FALSE(interruption->due());
  });
  Run(&b_, [&](runtime::hal::Interruption*) { ended.Notify(); });
  waits = true;
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
}

// One's part of a second is kept to a slice, so who has a small part has short ones.
TEST_F(TurnsPauseTest, SlicesAreByTheParts) {
  Make(absl::Milliseconds(8));
  std::atomic<bool> all{false};
  Accounts accounts;  // with numbers of their own
  std::vector<Account*> many;
  for (int i = 0; i < 39; ++i) {
    many.push_back(accounts.Of(absl::StrCat("heavy ", i)));
    many.back()->SetShare(2, false);
  }
  absl::Duration alone, light, heavy;
  Run(accounts.Of("first"), [&](runtime::hal::Interruption* interruption) {
    alone = interruption->slice();
    while (!all) {
    }
  });
  absl::Notification ended;
  int left = 40;  // one at a time
  // Parts by weight are of what waits or runs as the slice begins: of 1 + 2 * 39, then two less for each.
  for (Account* const each : many) {
    Run(each, [&](runtime::hal::Interruption* interruption) {
      if (heavy == absl::ZeroDuration()) heavy = interruption->slice();
      if (--left == 0) ended.Notify();
    });
  }
  Run(accounts.Of("light"), [&](runtime::hal::Interruption* interruption) {
    light = interruption->slice();
    if (--left == 0) ended.Notify();
  });
  all = true;
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_EQ(alone, absl::Milliseconds(8));
  EXPECT_GE(heavy, absl::Milliseconds(8) * 0.25);
  EXPECT_LT(heavy, absl::Milliseconds(8) * 0.27) << "a fortieth, ten times";
  EXPECT_GE(light, absl::Milliseconds(8) * 0.25) << "no less than a quarter";
}

// One that has paused is told at once that it is not wanted any more, though another keeps the device for longer.
TEST_F(TurnsPauseTest, OneThatIsCancelledGoesOnToItsEnd) {
  std::atomic<bool> cancelled{false}, paused{false}, stopped{false};
  absl::Notification ended;
  Run(
      &a_,
      [&](runtime::hal::Interruption* interruption) {
        while (!cancelled) {
          if (interruption->due()) interruption->GiveWay();
        }
        stopped = true;
      },
      {0}, &cancelled);
  Run(&b_, [&](runtime::hal::Interruption* interruption) {
    // The other has paused, or this would not be.
    paused = true;
    cancelled = true;
    // Until the device's queue has had the other between: it is not this one's part that is over.
    while (!stopped) {
      if (interruption->due()) interruption->GiveWay();
    }
    ended.Notify();
  });
  ended.WaitForNotification();
  runtime::hal::DrainAll(devices_);
  EXPECT_TRUE(paused);
}

}  // namespace
}  // namespace kiln::server
