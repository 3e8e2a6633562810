#include "runtime/drivers/cpu/deadline_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace kiln::runtime::cpu {
namespace {

using Deadline = DeadlineWatch::Deadline;

void AwaitPassed(const Deadline& deadline) {
  while (!deadline.passed().load()) std::this_thread::yield();
}

TEST(DeadlineWatch, SaysWhenOneHasPassed) {
  DeadlineWatch watch;
  const absl::Time at = absl::Now() + absl::Milliseconds(5);
  const Deadline deadline(watch, at);
  AwaitPassed(deadline);
  EXPECT_GE(absl::Now(), at);
}

TEST(DeadlineWatch, OneThatHasPassedAlready) {
  DeadlineWatch watch;
  const Deadline deadline(watch, absl::InfinitePast());
  AwaitPassed(deadline);
}

// The later ones come first, so each is the next one when it comes.
TEST(DeadlineWatch, AnEarlierOneWakesIt) {
  DeadlineWatch watch;
  const Deadline far(watch, absl::Now() + absl::Hours(1));
  const Deadline near(watch, absl::Now() + absl::Milliseconds(5));
  AwaitPassed(near);
  EXPECT_FALSE(far.passed().load());
}

TEST(DeadlineWatch, WithoutADeadlineNothingIsWatched) {
  DeadlineWatch watch;
  const Deadline never(watch, absl::InfiniteFuture());
  EXPECT_FALSE(never.passed().load());
}

TEST(DeadlineWatch, TheyEndInAnyOrder) {
  DeadlineWatch watch;
  const absl::Time far = absl::Now() + absl::Hours(1);
  auto a = std::make_unique<Deadline>(watch, far);
  auto b = std::make_unique<Deadline>(watch, far);
  auto c = std::make_unique<Deadline>(watch, far);
  b = nullptr;
  c = nullptr;
  a = nullptr;
  const Deadline last(watch, absl::InfinitePast());
  AwaitPassed(last);
}

TEST(DeadlineWatch, ManyThreads) {
  DeadlineWatch watch;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&watch, t] {
      for (int i = 0; i < 500; ++i) {
        const Deadline deadline(watch, absl::Now() + absl::Microseconds(i % 7 == t ? 20 : 1'000'000));
        if (i % 7 == t) AwaitPassed(deadline);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kiln::runtime::cpu
