#include "runtime/collective/meeting.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "runtime/collective/copy_between.h"
#include "runtime/drivers/null/device.h"

namespace kiln::runtime::collective {
namespace {

class MeetingTest : public ::testing::Test {
 protected:
  ~MeetingTest() override { hal::DrainAll(owned_); }

  MeetingTest() {
    for (int i = 0; i < 4; ++i) {
      owned_.push_back(*null::CreateDevice({.name = "NULL:" + std::to_string(i)}));
      devices_.push_back(owned_.back().get());
    }
  }

  // Submits and waits.
  absl::Status Meet(MeetingRequest request) {
    absl::Status outcome;
    absl::Notification done;
    meetings_.Submit(std::move(request), [&](absl::Status status) {
      outcome = std::move(status);
      done.Notify();
    });
    done.WaitForNotification();
    return outcome;
  }

  // Work that keeps a device busy until `release`.
  void Block(int device, absl::Notification& release) {
    devices_[device]->queue().Submit([&release] { release.WaitForNotification(); }, ~uint64_t{0});
  }

  // All that was submitted has run.
  void DrainAll() {
    for (hal::Device* device : devices_) EXPECT_TRUE(device->queue().Drain(absl::InfiniteFuture()).ok());
  }

  std::vector<std::unique_ptr<hal::Device>> owned_;
  std::vector<hal::Device*> devices_;
  Meetings meetings_;
};

TEST_F(MeetingTest, EveryoneWorksAtTheSameTime) {
  std::array<std::atomic<int>, 4> calls{};
  std::atomic<int> inside{0};
  const absl::Status status = Meet({devices_, [&](uint32_t rank) {
                                      ++calls[rank];
                                      ++inside;
                                      while (inside < 4) std::this_thread::yield();
                                    }});
  EXPECT_TRUE(status.ok()) << status;
  for (const auto& count : calls) EXPECT_EQ(count, 1);
}

TEST_F(MeetingTest, WhatWasSubmittedBeforeHasEnded) {
  absl::Notification release;
  std::atomic<bool> before{false};
  devices_[2]->queue().Submit(
      [&] {
        release.WaitForNotification();
        before = true;
      },
      ~uint64_t{0});
  absl::Notification done;
  bool seen = false;
  meetings_.Submit({devices_,
                    [&](uint32_t rank) {
                      if (rank == 0) seen = before;
                    }},
                   [&](const absl::Status&) { done.Notify(); });
  release.Notify();
  done.WaitForNotification();
  EXPECT_TRUE(seen);
}

TEST_F(MeetingTest, NoDeviceGoesOnBeforeAllWorkHasEnded) {
  std::atomic<bool> written = false, too_early = false;
  // The last of them writes to the memory of all.
  const auto work = [&](uint32_t rank) {
    if (rank != 3) return;
    absl::SleepFor(absl::Milliseconds(20));
    written = true;
  };
  absl::Notification met;
  meetings_.Submit({devices_, work}, [&](const absl::Status&) { met.Notify(); });
  for (hal::Device* device : devices_) {
    device->queue().Submit(
        [&] {
          if (!written) too_early = true;
        },
        ~uint64_t{0});
  }
  DrainAll();
  met.WaitForNotification();
  EXPECT_FALSE(too_early);
}

TEST_F(MeetingTest, ManyAtOnceInAnyOrderAllEnd) {
  constexpr int kThreads = 4, kEach = 200;
  absl::BlockingCounter left(kThreads * kEach);
  std::atomic<int> failures{0}, worked{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        // Other devices, and in another order, each time.
        std::vector<hal::Device*> some;
        for (int d = 0; d < 4; ++d) {
          if ((i + t + d) % 5 != 0) some.push_back(devices_[t % 2 == 0 ? d : 3 - d]);
        }
        meetings_.Submit({some, [&](uint32_t) { ++worked; }, absl::Seconds(30), {}}, [&](const absl::Status& status) {
          if (!status.ok()) ++failures;
          left.DecrementCount();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  left.Wait();
  EXPECT_EQ(failures, 0);
  EXPECT_GT(worked, kThreads * kEach * 2);
}

TEST_F(MeetingTest, NoQueueWaits) {
  absl::Notification release;
  Block(1, release);
  std::atomic<int> worked{0};
  absl::Notification done;
  absl::Status outcome;
  meetings_.Submit({devices_, [&worked](uint32_t) { ++worked; }, absl::Hours(1), {}}, [&](absl::Status status) {
    outcome = std::move(status);
    done.Notify();
  });
  for (int i : {0, 2, 3}) EXPECT_TRUE(devices_[i]->queue().Drain(absl::InfiniteFuture()).ok());
  EXPECT_EQ(worked, 0);
  release.Notify();
  done.WaitForNotification();
  EXPECT_TRUE(outcome.ok()) << outcome;
  EXPECT_EQ(worked, 4);
  DrainAll();
}

TEST_F(MeetingTest, AStuckParticipantIsNamedInTimeAndTheRestGoOn) {
  absl::Notification release;
  Block(1, release);
  Block(3, release);
  auto held = std::make_shared<int>(7);
  const std::weak_ptr<int> watched = held;
  const absl::Status status = Meet({devices_, [held = std::move(held)](uint32_t) {}, absl::Milliseconds(20), {}});
  EXPECT_EQ(DetailOf(status)->code(), v1::PARTICIPANT_MISSING);
  EXPECT_EQ(DetailOf(status)->field(), "NULL:1");
  EXPECT_NE(status.message().find("NULL:1, NULL:3"), absl::string_view::npos) << status;
  EXPECT_TRUE(watched.expired());
  EXPECT_TRUE(Meet({{devices_[0], devices_[2]}, [](uint32_t) {}}).ok());
  std::atomic<bool> cancelled{true};
  EXPECT_EQ(Meet({devices_, [](uint32_t) {}, absl::Hours(1), {.cancelled = &cancelled}}).code(),
            absl::StatusCode::kCancelled);
  release.Notify();
  DrainAll();
}

// Something long comes in between a probe and its meeting.
TEST_F(MeetingTest, TheyPartAndMeetAgain) {
  absl::Notification first, second, done;
  Block(1, first);
  absl::Status outcome;
  std::atomic<int> worked{0};
  meetings_.Submit({devices_, [&worked](uint32_t) { ++worked; }, absl::Hours(1), {}}, [&](absl::Status status) {
    outcome = std::move(status);
    done.Notify();
  });
  Block(1, second);
  first.Notify();
  // The others' entries are passed without device 1.
  for (int i : {0, 2, 3}) EXPECT_TRUE(devices_[i]->queue().Drain(absl::InfiniteFuture()).ok());
  EXPECT_EQ(worked, 0);
  second.Notify();
  done.WaitForNotification();
  EXPECT_TRUE(outcome.ok()) << outcome;
  EXPECT_EQ(worked, 4);
  DrainAll();
}

// Without work: only whether they come.
TEST_F(MeetingTest, DevicesAreAskedWhetherTheyAreReady) {
  EXPECT_TRUE(Meet({devices_, nullptr, absl::Hours(1), {}}).ok());
  absl::Notification release;
  Block(2, release);
  const absl::Status status = Meet({devices_, nullptr, absl::Milliseconds(1), {}});
  EXPECT_EQ(DetailOf(status)->field(), "NULL:2");
  release.Notify();
  DrainAll();
}

TEST_F(MeetingTest, CancelAndDeadlineEndTheWait) {
  absl::Notification release;
  Block(1, release);
  std::atomic<bool> cancelled{true};
  EXPECT_EQ(Meet({devices_, [](uint32_t) {}, absl::Hours(1), {.cancelled = &cancelled}}).code(),
            absl::StatusCode::kCancelled);
  const absl::Status late =
      Meet({devices_, [](uint32_t) {}, absl::Hours(1), {.deadline = absl::Now() - absl::Seconds(1)}});
  EXPECT_EQ(DetailOf(late)->code(), v1::DEADLINE_PASSED);
  release.Notify();
  DrainAll();
}

TEST_F(MeetingTest, CopiesBetweenDevices) {
  for (const uint64_t bytes : {0, 1, 2, 1001, 1 << 20}) {
    auto from = *devices_[0]->allocator().Allocate(bytes + 3, hal::MemoryUse::kClient);
    auto to = *devices_[1]->allocator().Allocate(bytes + 5, hal::MemoryUse::kClient);
    auto* data = static_cast<unsigned char*>(from->host_data());
    for (uint64_t i = 0; i < bytes; ++i) data[3 + i] = static_cast<unsigned char>(i * 7 + 1);
    absl::Notification done;
    absl::Status outcome;
    CopyBetween(meetings_, devices_[0], {from, 3, bytes}, devices_[1], {to, 5, bytes}, absl::Seconds(30), {},
                [&](absl::Status status) {
                  outcome = std::move(status);
                  done.Notify();
                });
    done.WaitForNotification();
    EXPECT_TRUE(outcome.ok()) << outcome;
    EXPECT_EQ(std::memcmp(data + 3, static_cast<char*>(to->host_data()) + 5, bytes), 0) << bytes;
  }
}

TEST_F(MeetingTest, ACopyBetweenDevicesIsStoppedWhileItWorks) {
  constexpr uint64_t kBytes = 8 << 20;
  auto from = *devices_[0]->allocator().Allocate(kBytes, hal::MemoryUse::kClient);
  auto to = *devices_[1]->allocator().Allocate(kBytes, hal::MemoryUse::kClient);
  // What is kept beside the target goes when the first of the two begins to write.
  std::atomic<bool> cancelled{false};
  std::shared_ptr<void> watcher(nullptr, [&](void*) { cancelled = true; });
  to->KeepDerived({}, std::shared_ptr<hal::Buffer>(std::move(watcher), nullptr));
  absl::Notification done;
  absl::Status outcome;
  CopyBetween(meetings_, devices_[0], hal::BufferSlice::Whole(from), devices_[1], hal::BufferSlice::Whole(to),
              absl::Seconds(30), {.cancelled = &cancelled}, [&](absl::Status status) {
                outcome = std::move(status);
                done.Notify();
              });
  done.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(outcome)) << outcome;
  DrainAll();
}

}  // namespace
}  // namespace kiln::runtime::collective
