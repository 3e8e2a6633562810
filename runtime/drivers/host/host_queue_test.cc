#include "runtime/drivers/host/host_queue.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/host/host_allocator.h"
#include "runtime/drivers/host/host_timeline.h"

namespace kiln::runtime::host {
namespace {

constexpr uint64_t kLimitNs = 10'000;
constexpr uint64_t kLongNs = 1'000'000;

TEST(HostQueue, SmallWorkRunsOnTheSubmittingThread) {
  HostQueue queue(nullptr, kLimitNs);
  std::thread::id ran;
  queue.Submit([&] { ran = std::this_thread::get_id(); }, 100);
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(queue.depth(), 0);
}

TEST(HostQueue, LongWorkRunsElsewhere) {
  HostQueue queue(nullptr, kLimitNs);
  std::thread::id ran;
  queue.Submit([&] { ran = std::this_thread::get_id(); }, kLongNs);
  ASSERT_TRUE(queue.Drain(absl::InfiniteFuture()).ok());
  EXPECT_NE(ran, std::this_thread::get_id());
}

TEST(HostQueue, KeepsOrderAndNeverBlocksTheSubmitter) {
  HostQueue queue(nullptr, kLimitNs);
  absl::Notification go;
  std::vector<int> seen;
  queue.Submit([&] { go.WaitForNotification(); }, kLongNs);
  // Small, but the queue is not idle: they must wait their turn, and not here.
  for (int i = 0; i < 100; ++i) queue.Submit([&seen, i] { seen.push_back(i); }, i % 3 == 0 ? kLongNs : 0);
  EXPECT_EQ(queue.depth(), 101);
  EXPECT_EQ(DetailOf(queue.Drain(absl::InfinitePast()))->code(), v1::DEADLINE_PASSED);
  go.Notify();
  ASSERT_TRUE(queue.Drain(absl::InfiniteFuture()).ok());
  ASSERT_EQ(seen.size(), 100);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen[i], i);
}

TEST(HostQueue, WorkSubmittedFromWorkRunsAfterIt) {
  HostQueue queue(nullptr, kLimitNs);
  std::vector<int> seen;
  queue.Submit(
      [&] {
        queue.Submit([&] { seen.push_back(2); }, 0);
        seen.push_back(1);
      },
      0);
  ASSERT_TRUE(queue.Drain(absl::InfiniteFuture()).ok());
  EXPECT_EQ(seen, std::vector<int>({1, 2}));
}

TEST(HostQueue, ManySubmittersNeverOverlap) {
  std::atomic<int> inside{0};
  std::vector<std::vector<int>> seen(4);
  {
    HostQueue queue(nullptr, kLimitNs);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 2000; ++i) {
          queue.Submit(
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
  }  // the destructor waits for all of it
  for (const std::vector<int>& mine : seen) {
    ASSERT_EQ(mine.size(), 2000);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(mine[i], i);
  }
}

TEST(HostQueue, EndlessSmallWorkIsHandedOver) {
  HostQueue queue(nullptr, kLimitNs);
  // Each piece submits the next, so an owner that only looked at estimates of
  // single pieces would keep this thread until the chain ends.
  std::atomic<int> left{100'000};
  std::atomic<bool> elsewhere{false};
  const std::thread::id here = std::this_thread::get_id();
  std::function<void()> next = [&] {
    if (std::this_thread::get_id() != here) elsewhere = true;
    if (--left > 0) queue.Submit([&] { next(); }, 0);
  };
  queue.Submit([&] { next(); }, 0);
  while (left > 0) ASSERT_TRUE(queue.Drain(absl::InfiniteFuture()).ok());
  EXPECT_TRUE(elsewhere);
}

class TransferTest : public ::testing::Test {
 protected:
  hal::BufferSlice New(const std::string& text) {
    auto buffer = allocator_->Allocate(text.size(), hal::MemoryUse::kClient);
    std::memcpy((*buffer)->host_data(), text.data(), text.size());
    return hal::BufferSlice::Whole(*buffer);
  }
  static std::string Text(const hal::BufferSlice& slice) {
    return std::string(static_cast<char*>(slice.host_data()), slice.bytes);
  }
  hal::DoneCallback Into(absl::Status& status) {
    return [&status](absl::Status s) { status = std::move(s); };
  }

  std::unique_ptr<hal::Allocator> allocator_ = MakeHostAllocator(nullptr, 1 << 20);
  HostQueue queue_{nullptr, kLimitNs};
  absl::Status status_ = absl::UnknownError("not called");
};

TEST_F(TransferTest, CopiesAndOverlaps) {
  const hal::BufferSlice a = New("abcdefgh"), b = New("........");
  queue_.Copy({a.buffer, 2, 3}, {b.buffer, 1, 3}, Into(status_));
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(Text(b), ".cde....");
  queue_.Copy({a.buffer, 0, 6}, {a.buffer, 2, 6}, Into(status_));
  EXPECT_EQ(Text(a), "ababcdef");
}

TEST_F(TransferTest, WritesReadsAndFills) {
  const hal::BufferSlice a = New("abcdefgh");
  queue_.Write("XY", {a.buffer, 6, 2}, Into(status_));
  EXPECT_TRUE(status_.ok());
  EXPECT_EQ(Text(a), "abcdefXY");
  char out[3] = {};
  queue_.Read({a.buffer, 5, 3}, out, Into(status_));
  EXPECT_EQ(std::string(out, 3), "fXY");
  queue_.Fill({a.buffer, 0, 7}, "123", Into(status_));
  EXPECT_EQ(Text(a), "1231231Y");
  queue_.Fill({a.buffer, 0, 2}, "", Into(status_));
  EXPECT_EQ(Text(a), std::string("\0\0", 2).append("31231Y"));
}

TEST_F(TransferTest, PiecesAreOneEntry) {
  const hal::BufferSlice a = New("abcdefgh");
  absl::Notification go;
  queue_.Submit([&] { go.WaitForNotification(); }, kLongNs);
  queue_.WritePieces({"1", "", "23", "456"}, {a.buffer, 1, 6}, Into(status_));
  EXPECT_EQ(queue_.depth(), 2);
  go.Notify();
  ASSERT_TRUE(queue_.Drain(absl::InfiniteFuture()).ok());
  EXPECT_TRUE(status_.ok()) << status_;
  EXPECT_EQ(Text(a), "a123456h");
  queue_.WritePieces({"xx", "yy"}, {a.buffer, 0, 3}, Into(status_));
  EXPECT_EQ(DetailOf(status_)->code(), v1::BUFFER_SIZE_MISMATCH) << status_;
  queue_.WritePieces({"xx"}, {a.buffer, 7, 2}, Into(status_));
  EXPECT_EQ(DetailOf(status_)->code(), v1::OUT_OF_BOUNDS) << status_;
  EXPECT_EQ(Text(a), "a123456h");
}

TEST_F(TransferTest, ZeroBytesAreFine) {
  const hal::BufferSlice empty = New("");
  queue_.Copy(empty, empty, Into(status_));
  EXPECT_TRUE(status_.ok());
  queue_.Write(nullptr, empty, Into(status_));
  EXPECT_TRUE(status_.ok());
  queue_.WritePieces({}, empty, Into(status_));
  EXPECT_TRUE(status_.ok());
  queue_.Read(empty, nullptr, Into(status_));
  EXPECT_TRUE(status_.ok());
  queue_.Fill(empty, "ab", Into(status_));
  EXPECT_TRUE(status_.ok());
}

TEST_F(TransferTest, RefusesBadSlices) {
  const hal::BufferSlice a = New("abcdefgh"), b = New("........");
  const struct {
    hal::BufferSlice from, to;
    v1::ErrorCode code;
  } kCases[] = {
      {{a.buffer, 0, 9}, {b.buffer, 0, 8}, v1::OUT_OF_BOUNDS},
      {{a.buffer, 0, 8}, {b.buffer, 1, 8}, v1::OUT_OF_BOUNDS},
      {{a.buffer, 9, 0}, {b.buffer, 0, 0}, v1::OUT_OF_BOUNDS},
      {{a.buffer, ~uint64_t{0}, 2}, {b.buffer, 0, 2}, v1::OUT_OF_BOUNDS},
      {{nullptr, 0, 0}, {b.buffer, 0, 0}, v1::OUT_OF_BOUNDS},
      {{a.buffer, 0, 4}, {b.buffer, 0, 5}, v1::BUFFER_SIZE_MISMATCH},
  };
  for (const auto& test : kCases) {
    queue_.Copy(test.from, test.to, Into(status_));
    EXPECT_EQ(DetailOf(status_)->code(), test.code) << status_;
  }
}

TEST_F(TransferTest, SignalComesAfterWhatIsBefore) {
  HostTimeline timeline;
  absl::Notification go;
  std::atomic<bool> ran{false};
  queue_.Submit(
      [&] {
        go.WaitForNotification();
        ran = true;
      },
      kLongNs);
  queue_.Signal(&timeline, 3);
  EXPECT_EQ(timeline.value(), 0);
  go.Notify();
  EXPECT_TRUE(timeline.Wait(3, absl::InfiniteFuture()).ok());
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace kiln::runtime::host
