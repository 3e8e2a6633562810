#include "server/engine/memory/poison.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"
#include "runtime/hal/wanted_copy.h"

namespace kiln::server {
namespace {

CausePtr Make(uint64_t id) {
  return std::make_shared<const Cause>(Cause{id, "", MakeError(v1::OUT_OF_BOUNDS, "because")});
}

// 0: healthy.
uint64_t IdIn(const Poison& poison, uint64_t begin, uint64_t end) {
  const CausePtr cause = poison.In(begin, end);
  return cause == nullptr ? 0 : cause->command_id;
}

TEST(Poison, BytesKeepTheirFirstCause) {
  Poison poison;
  poison.MarkPoisoned(8, 16, Make(1));
  poison.MarkPoisoned(4, 24, Make(2));
  EXPECT_EQ(IdIn(poison, 8, 16), 1u);
  EXPECT_EQ(IdIn(poison, 4, 8), 2u);
  EXPECT_EQ(IdIn(poison, 16, 24), 2u);
  EXPECT_EQ(IdIn(poison, 0, 32), 1u);  // the earliest
  EXPECT_EQ(IdIn(poison, 0, 4), 0u);
  EXPECT_EQ(IdIn(poison, 24, 32), 0u);
}

TEST(Poison, OnlyWhatIsOverwrittenHeals) {
  Poison poison;
  poison.MarkPoisoned(0, 100, Make(3));
  poison.Heal(20, 40);
  EXPECT_EQ(IdIn(poison, 20, 40), 0u);
  EXPECT_EQ(IdIn(poison, 19, 20), 3u);
  EXPECT_EQ(IdIn(poison, 40, 41), 3u);
  poison.Heal(0, 20);
  poison.Heal(30, 100);
  EXPECT_EQ(IdIn(poison, 0, Poison::kEnd), 0u);
}

TEST(Poison, NoBytesAreHealthy) {
  Poison poison;
  poison.MarkPoisoned(0, Poison::kEnd, Make(4));
  EXPECT_EQ(IdIn(poison, 8, 8), 0u);
  poison.MarkPoisoned(4, 4, Make(5));
  poison.Heal(6, 6);
  EXPECT_EQ(IdIn(poison, 0, 8), 4u);
}

// What is healthy in truth may be taken for poisoned, beyond the most ranges; never the
// other way round.
TEST(Poison, ManyRangesGrowTogetherAndNeverApart) {
  Poison poison;
  for (uint64_t i = 0; i < 4 * kMaxPoisonedRanges; ++i) poison.MarkPoisoned(4 * i, 4 * i + 1, Make(i + 1));
  for (uint64_t i = 0; i < 4 * kMaxPoisonedRanges; ++i) {
    EXPECT_NE(IdIn(poison, 4 * i, 4 * i + 1), 0u);
    EXPECT_LE(IdIn(poison, 4 * i, 4 * i + 1), i + 1);
  }
  poison.Heal(0, Poison::kEnd);
  EXPECT_EQ(IdIn(poison, 0, Poison::kEnd), 0u);
}

// Against a list of every byte's cause.
TEST(Poison, IsWhatAListOfBytesSays) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    Poison poison;
    uint64_t causes[64] = {};
    for (uint64_t id = 1; id <= 60; ++id) {
      uint64_t begin = random() % 64, end = random() % 65;
      if (begin > end) std::swap(begin, end);
      if (random() % 2 == 0) {
        poison.MarkPoisoned(begin, end, Make(id));
        for (uint64_t i = begin; i < end; ++i) causes[i] = causes[i] == 0 ? id : causes[i];
      } else {
        poison.Heal(begin, end);
        for (uint64_t i = begin; i < end; ++i) causes[i] = 0;
      }
      for (uint64_t i = 0; i < 64; ++i) ASSERT_EQ(IdIn(poison, i, i + 1), causes[i]) << "byte " << i;
    }
  }
}

TEST(Touched, WhatIsOverwrittenDoesNotCountAndHeals) {
  const auto poison = std::make_shared<Poison>();
  poison->MarkPoisoned(0, 64, Make(5));
  Touched overwrites;
  overwrites.Overwrites({poison, 0, 32});
  EXPECT_EQ(overwrites.Cause(), nullptr);
  overwrites.Settle(absl::OkStatus());
  EXPECT_EQ(IdIn(*poison, 0, 32), 0u);
  Touched writes;
  writes.Writes({poison, 32, 64});
  EXPECT_EQ(writes.Check().code(), absl::StatusCode::kOutOfRange);
  writes.Heal();
  EXPECT_EQ(IdIn(*poison, 32, 64), 5u);
}

TEST(Touched, AFailurePoisonsAllThatWouldHaveBeenWritten) {
  const auto a = std::make_shared<Poison>(), b = std::make_shared<Poison>(), read = std::make_shared<Poison>();
  Touched touched;
  touched.Overwrites({a, 0, 8});
  touched.Makes({b, 0, Poison::kEnd});
  touched.Reads({read, 0, 8});
  touched.Reads({nullptr, 0, 8});
  touched.Settle(MakeError(v1::DEADLINE_PASSED, "late"));
  EXPECT_NE(a->In(0, 8), nullptr);
  EXPECT_EQ(a->In(8, 9), nullptr);
  EXPECT_EQ(b->In(7, 9)->status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(read->In(0, 8), nullptr);
}

TEST(Touched, ACallThatWasStoppedHasPoisonedWhatItHadBegunToWrite) {
  const auto poison = std::make_shared<Poison>();
  Touched touched;
  touched.Overwrites({poison, 0, 8});
  const absl::Status late = MakeError(v1::DEADLINE_PASSED, "late");
  EXPECT_EQ(touched.Finish(late), late);
  EXPECT_EQ(poison->In(0, 8), nullptr);
  EXPECT_EQ(touched.Finish(runtime::hal::Partly(late)), late);
  ASSERT_NE(poison->In(0, 8), nullptr);
  EXPECT_EQ(poison->In(0, 8)->status, late);
}

// Nobody reads what a command has not made, while it is not known yet whether one before it is the cause.
TEST(Touched, WhatWasNotMadeIsPoisonedAtOnceAndBlamedLater) {
  const auto made = std::make_shared<Poison>(), written = std::make_shared<Poison>();
  Touched touched;
  touched.Makes({made, 0, Poison::kEnd});
  touched.Writes({written, 0, 8});
  touched.Overwrites({written, 8, 16});
  touched.Changes({written, 16, 24});
  const CausePtr own = Make(7), earlier = Make(5);
  touched.MarkMadePoisoned(own);
  EXPECT_EQ(IdIn(*made, 0, 8), 7u);
  EXPECT_EQ(IdIn(*written, 0, 24), 0u);
  EXPECT_EQ(touched.Cause(), nullptr);
  made->MarkPoisoned(0, 4, Make(9));
  touched.Replace(own, earlier);
  touched.MarkPoisoned(earlier);
  EXPECT_EQ(IdIn(*made, 0, 8), 5u);
  EXPECT_EQ(IdIn(*written, 16, 24), 5u);
}

}  // namespace
}  // namespace kiln::server
