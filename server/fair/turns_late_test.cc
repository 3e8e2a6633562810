#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "server/fair/lateness.h"
#include "server/fair/turns.h"
#include "server/fair/turns_fixture.h"

namespace kiln::server {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

class LateTest : public TurnsTest {
 protected:
  // One that has a minute for what takes as long as that.
  TurnRequest InAMinute(uint64_t flow, uint64_t estimate_seconds, uint64_t spread_seconds,
                        std::vector<int> devices = {0}) {
    TurnRequest request = At(flow, estimate_seconds * kSecondNs, std::move(devices));
    request.spread_ns = spread_seconds * kSecondNs;
    request.control.deadline = SteadyNow() + absl::Minutes(1);
    return request;
  }
  // Nobody's wait is told from it, and it has the device until EndOne.
  TurnRequest Holds(std::vector<int> devices = {0}) {
    TurnRequest request = At(1, 1000, std::move(devices));
    request.guessed = true;
    return request;
  }
};

TEST_F(LateTest, ADeadlineThatCannotBeMetIsRefusedAtOnce) {
  TurnRequest request = At(1, 60'000'000'000);
  request.control.deadline = SteadyNow() + absl::Seconds(30);
  turns_->Take(std::move(request), Keep("alone"));  // an estimate may be wrong
  request = At(2, 1000);
  request.control.deadline = SteadyNow() + absl::Seconds(30);
  EXPECT_GT(turns_->PredictedWait(request), 59);
  turns_->Take(std::move(request), Keep("late"));
  EXPECT_EQ(called_, (Names{"alone", "late not: DEADLINE_EXCEEDED"}));
  EXPECT_EQ(DetailOf(last_)->code(), v1::DEADLINE_PASSED);
  EXPECT_NE(last_.message().find("would begin in about 59"), std::string::npos) << last_;  // seconds, and some less
  request = At(2, 1000);
  request.control.deadline = SteadyNow() + absl::Seconds(3000);
  turns_->Take(std::move(request), Keep("soon"));
  EndOne();
  EXPECT_EQ(called_.back(), "soon");
  EndOne();
}

TEST_F(LateTest, AGuessRefusesNobody) {
  turns_->Take(Holds(), Keep("holds"));
  TurnRequest request = InAMinute(2, 3600, 0);
  request.guessed = true;
  turns_->Take(std::move(request), Keep("guessed"));
  EXPECT_EQ(called_, Names{"holds"});
  EndOne();
  EXPECT_EQ(called_, (Names{"holds", "guessed"}));
  EndOne();
}

TEST_F(LateTest, ItsOwnTimeCountsWhereItMustWait) {
  turns_->Take(Holds(), Keep("holds"));
  turns_->Take(InAMinute(2, 61, 0), Keep("late"));
  EXPECT_EQ(called_, (Names{"holds", "late not: DEADLINE_EXCEEDED"}));
  EXPECT_NE(last_.message().find("would begin in about 0 us and take 61000000 us"), std::string::npos) << last_;
  EndOne();
}

// The device is never its own, and its session goes on once it knows.
TEST_F(LateTest, WhoseTurnComesTooLateIsToldInThePlaceOfIt) {
  turns_->Take(Holds(), Keep("holds"));
  turns_->Take(InAMinute(2, 10, 30), Keep("late"));
  turns_->Take(At(2), Keep("behind"));
  turns_->Take(At(3), Keep("other"));
  EXPECT_EQ(called_, Names{"holds"});
  EndOne();
  EXPECT_EQ(called_, (Names{"holds", "late not: DEADLINE_EXCEEDED", "other"}));
  EndOne();
  EXPECT_EQ(called_.back(), "behind");
  EndOne();
  EXPECT_EQ(turns_->waiting(*devices_[0]), 0u);
}

TEST_F(LateTest, WhereNobodyElseWaitsWhatIsPossibleIsTried) {
  turns_->Take(Holds(), Keep("holds"));
  turns_->Take(InAMinute(2, 10, 30), Keep("unlikely"));
  EndOne();
  EXPECT_EQ(called_, (Names{"holds", "unlikely"}));
  EndOne();
}

// It has its turn at the second device already, and waits for the first.
TEST_F(LateTest, OneForSeveralDevicesGivesUpItsPlaceAtAll) {
  turns_->Take(Holds(), Keep("holds"));
  turns_->Take(At(1), Keep("before"));
  absl::Notification told, behind;
  TurnRequest request = At(1, 3600 * kSecondNs, {1, 0});
  request.control.deadline = SteadyNow() + absl::Hours(1) + absl::Milliseconds(50);
  turns_->Take(std::move(request), [&](const absl::StatusOr<Turn>& turn) {
    EXPECT_TRUE(absl::IsDeadlineExceeded(turn.status())) << turn.status();
    told.Notify();
  });
  turns_->Take(At(1, 1000, {1}), [&](absl::StatusOr<Turn> turn) {
    EXPECT_TRUE(told.HasBeenNotified());
    turn->End(1000);
    behind.Notify();
  });
  behind.WaitForNotification();
  while (!had_.empty()) EndOne();
  EXPECT_EQ(called_, (Names{"holds", "before"}));
  turns_->Take(At(4, 1000, {0, 1}), Keep("both"));
  EXPECT_EQ(called_.back(), "both");
  EndOne();
}

TEST_F(LateTest, WhoCannotBeInTimeAnyMoreIsToldWhileItWaits) {
  turns_->Take(Holds(), Keep("holds"));
  absl::Notification told;
  absl::Status status;
  TurnRequest request = At(2, 3600 * kSecondNs);
  request.control.deadline = SteadyNow() + absl::Hours(1) + absl::Milliseconds(50);
  turns_->Take(std::move(request), [&](const absl::StatusOr<Turn>& turn) {
    status = turn.status();
    told.Notify();
  });
  told.WaitForNotification();  // not for an hour
  EXPECT_EQ(DetailOf(status)->code(), v1::DEADLINE_PASSED);
  EXPECT_NE(status.message().find("take 3600000000 us"), std::string::npos) << status;
  EXPECT_EQ(turns_->waiting(*devices_[0]), 0u);
  EndOne();
}

// An estimate that refuses all of a program's requests would never be corrected.
TEST_F(LateTest, OneIsLetTryAgainstItsEstimate) {
  Trials trials;
  const auto ask = [&](const std::string& name) {
    TurnRequest request = InAMinute(2, 3600, 0);
    request.trials = &trials;
    turns_->Take(std::move(request), Keep(name));
  };
  turns_->Take(Holds(), Keep("holds"));
  ask("tries");
  ask("late");
  EXPECT_EQ(called_, (Names{"holds", "late not: DEADLINE_EXCEEDED"}));
  EndOne();
  EXPECT_EQ(called_.back(), "tries");
  ask("late again");
  EXPECT_EQ(called_.back(), "late again not: DEADLINE_EXCEEDED");
  EndOne();
}

TEST_F(LateTest, OneThatHasBegunIsAsGoodAsATrial) {
  Trials trials;
  TurnRequest request = At(1);
  request.trials = &trials;
  request.guessed = true;
  turns_->Take(std::move(request), Keep("begins"));
  request = InAMinute(2, 3600, 0);
  request.trials = &trials;
  turns_->Take(std::move(request), Keep("late"));
  EXPECT_EQ(called_, (Names{"begins", "late not: DEADLINE_EXCEEDED"}));
  EndOne();
}

}  // namespace
}  // namespace kiln::server
