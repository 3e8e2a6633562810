#include "runtime/drivers/host/host_timeline.h"

#include <thread>
#include <vector>

#include "base/error.h"
#include "gtest/gtest.h"

namespace kiln::runtime::host {
namespace {

TEST(HostTimeline, OnlyRises) {
  HostTimeline timeline;
  EXPECT_EQ(timeline.value(), 0);
  timeline.Signal(5);
  timeline.Signal(3);
  EXPECT_EQ(timeline.value(), 5);
}

TEST(HostTimeline, CallbacksRunInOrderOfValue) {
  HostTimeline timeline;
  std::vector<int> seen;
  timeline.OnReached(7, [&](absl::Status status) { seen.push_back(7); });
  timeline.OnReached(2, [&](absl::Status status) { seen.push_back(2); });
  timeline.OnReached(9, [&](absl::Status status) { seen.push_back(status.ok() ? 9 : -9); });
  timeline.OnReached(0, [&](absl::Status status) { seen.push_back(0); });
  EXPECT_EQ(seen, std::vector<int>({0}));
  timeline.Signal(8);
  EXPECT_EQ(seen, std::vector<int>({0, 2, 7}));
  timeline.Fail(absl::AbortedError("stop"));
  EXPECT_EQ(seen, std::vector<int>({0, 2, 7, -9}));
}

TEST(HostTimeline, WaitEndsAtTheValueOrTheDeadline) {
  HostTimeline timeline;
  std::thread signaller([&] { timeline.Signal(4); });
  EXPECT_TRUE(timeline.Wait(4, absl::InfiniteFuture()).ok());
  signaller.join();
  EXPECT_EQ(DetailOf(timeline.Wait(5, absl::InfinitePast()))->code(), v1::DEADLINE_PASSED);
}

TEST(HostTimeline, FailureTakesThePlaceOfLaterValues) {
  HostTimeline timeline;
  timeline.Signal(1);
  timeline.Fail(absl::AbortedError("first"));
  timeline.Fail(absl::InternalError("second"));
  timeline.Signal(2);
  EXPECT_EQ(timeline.value(), 1);
  EXPECT_TRUE(timeline.Wait(1, absl::InfiniteFuture()).ok());
  EXPECT_EQ(timeline.Wait(2, absl::InfiniteFuture()), absl::AbortedError("first"));
}

TEST(HostTimeline, DestructionCancelsCallbacks) {
  absl::Status seen;
  {
    HostTimeline timeline;
    timeline.OnReached(1, [&](absl::Status status) { seen = status; });
  }
  EXPECT_EQ(seen.code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace kiln::runtime::host
