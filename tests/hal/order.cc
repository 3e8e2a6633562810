// The order in which a device does things (runtime/hal/queue.h).
#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "tests/hal/hal_test.h"

namespace kiln::testing {
namespace {

class Order : public HalTest {};

// The outcomes of many transfers, in the order in which they came.
class Outcomes {
 public:
  runtime::hal::DoneCallback Next() {
    return [this, number = asked_++](absl::Status status) {
      EXPECT_EQ(status, absl::OkStatus()) << number;
      EXPECT_EQ(number, ended_.fetch_add(1));
    };
  }
  int asked() const { return asked_; }
  int ended() const { return ended_; }

 private:
  int asked_ = 0;
  std::atomic<int> ended_ = 0;
};

TEST_P(Order, WorkRunsAsItWasSubmitted) {
  std::vector<int> seen;
  {
    Gate gate(device());
    // Small, but the queue is not idle: they wait for it, and do not block this thread.
    for (int i = 0; i < 100; ++i) device().queue().Submit([&seen, i] { seen.push_back(i); }, i % 3 == 0 ? kLongNs : 0);
    EXPECT_EQ(device().queue().depth(), 101u);
    EXPECT_EQ(device().stats().queue_depth, 101u);
    EXPECT_EQ(CodeOf(device().queue().Drain(absl::InfinitePast())), v1::DEADLINE_PASSED);
    EXPECT_TRUE(seen.empty());
  }
  ASSERT_EQ(device().queue().Drain(absl::InfiniteFuture()), absl::OkStatus());
  ASSERT_EQ(seen.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[static_cast<size_t>(i)], i);
}

TEST_P(Order, WorkSubmittedFromWorkRunsAfterIt) {
  std::vector<int> seen;
  device().queue().Submit(
      [&] {
        device().queue().Submit([&] { seen.push_back(2); }, 0);
        seen.push_back(1);
      },
      0);
  Settle();
  EXPECT_EQ(seen, std::vector<int>({1, 2}));
}

TEST_P(Order, ManySubmittersNeverOverlap) {
  std::atomic<int> inside = 0;
  std::vector<std::vector<int>> seen(4);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < seen.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        device().queue().Submit(
            [&, t, i] {
              EXPECT_EQ(inside.fetch_add(1), 0);
              seen[t].push_back(i);
              inside.fetch_sub(1);
            },
            i % 7 == 0 ? kLongNs : 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Settle();
  for (const std::vector<int>& mine : seen) {
    ASSERT_EQ(mine.size(), 500u);
    for (int i = 0; i < 500; ++i) ASSERT_EQ(mine[static_cast<size_t>(i)], i);
  }
}

TEST_P(Order, TransfersAreQueuedAsWorkIs) {
  const BufferSlice a = NewWith("........"), b = NewWith("........");
  const std::string first = "abcdefgh";
  std::string of_a(8, '?'), of_b(8, '?');
  Outcomes outcomes;
  {
    Gate gate(device());
    auto& queue = device().queue();
    queue.Write(first.data(), a, outcomes.Next());
    queue.Copy({a.buffer, 0, 4}, {b.buffer, 2, 4}, outcomes.Next());
    queue.WritePieces({"1", "23"}, {a.buffer, 5, 3}, outcomes.Next());
    queue.Fill({b.buffer, 0, 1}, "#", outcomes.Next());
    queue.Read(a, of_a.data(), outcomes.Next());
    queue.Read(b, of_b.data(), outcomes.Next());
    // One entry each, pieces or not.
    EXPECT_EQ(queue.depth(), 7u);
    EXPECT_EQ(outcomes.ended(), 0);
    EXPECT_EQ(of_a, "????????");
  }
  Settle();
  EXPECT_EQ(outcomes.ended(), 6);
  EXPECT_EQ(of_a, "abcde123");
  EXPECT_EQ(of_b, "#.abcd..");
}

TEST_P(Order, ManyTransfersInFlight) {
  constexpr size_t kCount = 200;
  constexpr uint64_t kBytes = 1001;
  const BufferSlice all = New(kCount * kBytes);
  std::vector<std::string> sent, got(kCount, std::string(kBytes, '?'));
  for (size_t i = 0; i < kCount; ++i) sent.push_back(Pattern(kBytes, static_cast<int>(i)));
  Outcomes outcomes;
  for (size_t i = 0; i < kCount; ++i)
    device().queue().Write(sent[i].data(), {all.buffer, i * kBytes, kBytes}, outcomes.Next());
  for (size_t i = 0; i < kCount; ++i)
    device().queue().Read({all.buffer, i * kBytes, kBytes}, got[i].data(), outcomes.Next());
  Settle();
  EXPECT_EQ(outcomes.ended(), outcomes.asked());
  EXPECT_EQ(got, sent);
}

TEST_P(Order, CallbacksMaySubmitMore) {
  const BufferSlice slice = NewWith("0000");
  absl::Notification done;
  std::string got(4, '?');
  auto& queue = device().queue();
  queue.Fill(slice, "1", [&](const absl::Status& filled) {
    EXPECT_EQ(filled, absl::OkStatus());
    queue.Write("23", {slice.buffer, 1, 2}, [&](const absl::Status& written) {
      EXPECT_EQ(written, absl::OkStatus());
      queue.Read(slice, got.data(), [&](const absl::Status& read) {
        EXPECT_EQ(read, absl::OkStatus());
        done.Notify();
      });
    });
  });
  done.WaitForNotification();
  EXPECT_EQ(got, "1231");
}

TEST_P(Order, QueuesDoNotWaitForEachOther) {
  if (const char* why = Lacks(Feature::kPair)) GTEST_SKIP() << why;
  std::atomic<bool> ran = false;
  Gate gate(device());
  device().queue().Submit([&] { ran = true; }, 0);
  const BufferSlice there = NewWith("abc", 1);
  EXPECT_EQ(BytesOf(there, 1), "abc");
  EXPECT_FALSE(ran);
  gate.Go();
  Settle();
  EXPECT_TRUE(ran);
}

// Each transfer begins in a callback of the other queue.
TEST_P(Order, DependenciesAcrossQueues) {
  if (const char* why = Lacks(Feature::kPair)) GTEST_SKIP() << why;
  constexpr int kHops = 20;
  const BufferSlice slices[] = {NewWith("a"), NewWith("?", 1)};
  absl::Notification done;
  std::string token(1, '?');
  int hops = 0;
  std::function<void(size_t)> send_from = [&](size_t here) {
    device(here).queue().Read(slices[here], token.data(), [&, here](const absl::Status& read) {
      EXPECT_EQ(read, absl::OkStatus());
      if (++hops == kHops) return done.Notify();
      ++token[0];
      const size_t there = 1 - here;
      device(there).queue().Write(token.data(), slices[there], [&, there](const absl::Status& written) {
        EXPECT_EQ(written, absl::OkStatus());
        send_from(there);
      });
    });
  };
  send_from(0);
  done.WaitForNotification();
  EXPECT_EQ(token[0], 'a' + kHops - 1);
  EXPECT_EQ(BytesOf(slices[0]) + BytesOf(slices[1], 1), std::string({'a' + kHops - 2, 'a' + kHops - 1}));
}

INSTANTIATE_TEST_SUITE_P(Devices, Order, ::testing::ValuesIn(RowPointers()), RowName);

}  // namespace
}  // namespace kiln::testing
