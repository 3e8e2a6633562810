#include "server/fair/lateness.h"

#include "absl/time/time.h"
#include "base/error.h"
#include "gtest/gtest.h"

namespace kiln::server {
namespace {

Prospect In(int left, int wait, int run, int spread = 0, bool others_wait = false) {
  return {absl::Milliseconds(left), absl::Milliseconds(wait), absl::Milliseconds(run), absl::Milliseconds(spread),
          others_wait};
}

TEST(Lateness, ItIsInTimeIfItsWaitAndItsRunAre) {
  EXPECT_TRUE(In(100, 0, 100).in_time());
  EXPECT_TRUE(In(100, 60, 40).in_time());
  EXPECT_FALSE(In(100, 61, 40).in_time());
  EXPECT_FALSE(In(100, 101, 0).in_time());
}

TEST(Lateness, WhereOthersWaitItMustBeLikely) {
  EXPECT_TRUE(In(100, 50, 50, 10, /*others_wait=*/false).in_time());
  EXPECT_FALSE(In(100, 50, 50, 10, /*others_wait=*/true).in_time());
  EXPECT_TRUE(In(100, 30, 50, 10, /*others_wait=*/true).in_time());
}

TEST(Lateness, TellsWhoIsToBlame) {
  EXPECT_TRUE(In(100, 60, 50).for_itself());
  EXPECT_TRUE(In(100, 0, 101).for_itself());
  EXPECT_FALSE(In(100, 101, 50).for_itself()) << "what waits before it";
  EXPECT_FALSE(In(100, 50, 50).for_itself()) << "it is in time";
}

TEST(Lateness, SaysWhatIsExpected) {
  const absl::Status status = TooLate(In(100, 70, 50, 5, /*others_wait=*/true));
  EXPECT_EQ(DetailOf(status)->code(), v1::DEADLINE_PASSED);
  EXPECT_EQ(status.message(),
            "the deadline is in 100000 us, and by what waits before it this would begin in about 70000 us and take "
            "60000 us; ask with a later deadline, or when less is waiting");
}

TEST(Trials, OneIsLetTryForTwentyTimesAsLongWithoutARun) {
  Trials trials;
  const absl::Time begin = absl::FromUnixSeconds(1000);
  const absl::Duration most = absl::Milliseconds(5);
  trials.Began(begin);
  EXPECT_FALSE(trials.Due(begin + absl::Milliseconds(99), most));
  EXPECT_TRUE(trials.Due(begin + absl::Milliseconds(100), most));
  EXPECT_FALSE(trials.Due(begin + absl::Milliseconds(101), most)) << "it counts as begun";
  EXPECT_FALSE(trials.Due(begin + absl::Milliseconds(199), most));
  EXPECT_TRUE(trials.Due(begin + absl::Milliseconds(200), most));
  trials.Began(begin + absl::Milliseconds(250));
  EXPECT_FALSE(trials.Due(begin + absl::Milliseconds(349), most));
  // The shorter, the sooner.
  EXPECT_TRUE(trials.Due(begin + absl::Milliseconds(270), absl::Milliseconds(1)));
}

TEST(Trials, OneOfWhichNoneHasEverBegunIsLetTry) {
  Trials trials;
  EXPECT_TRUE(trials.Due(absl::FromUnixSeconds(1'700'000'000), absl::Hours(1)));
}

}  // namespace
}  // namespace kiln::server
