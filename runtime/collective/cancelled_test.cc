// A collective that is cancelled, at each point of its way: what it says, and what it has written.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"
#include "runtime/collective/collective.h"
#include "runtime/drivers/null/device.h"

namespace kiln::runtime::collective {
namespace {

constexpr uint64_t kCount = 1000;

class CancelledCollectiveTest : public ::testing::Test {
 protected:
  CancelledCollectiveTest() {
    request_.kind = Kind::kAllReduce;
    request_.dtype = v1::INT32;
    request_.count = kCount;
    for (int i = 0; i < 3; ++i) {
      owned_.push_back(*null::CreateDevice({.name = absl::StrCat("NULL:", i)}));
      request_.devices.push_back(owned_.back().get());
      request_.inputs.push_back(Filled(i + 1));
      request_.outputs.push_back(Filled(-1));
    }
  }
  ~CancelledCollectiveTest() override {
    if (!release_.HasBeenNotified()) release_.Notify();
    hal::DrainAll(owned_);
  }

  hal::BufferSlice Filled(int32_t value) {
    auto slice =
        hal::BufferSlice::Whole(*owned_.back()->allocator().Allocate(kCount * sizeof(value), hal::MemoryUse::kClient));
    auto* const values = static_cast<int32_t*>(slice.host_data());
    std::fill(values, values + kCount, value);
    return slice;
  }

  // Keeps the last device busy until release_.
  void Block() {
    owned_[2]->queue().Submit([this] { release_.WaitForNotification(); }, ~uint64_t{0});
  }

  void Begin() {
    collectives_.Run(request_, {.cancelled = &cancelled_}, [this](absl::StatusOr<Report> report) {
      ++answers_;
      outcome_ = std::move(report);
      done_.Notify();
    });
  }

  // What is kept beside an output goes when the first participant begins to write.
  void CancelAsItBegins() {
    std::shared_ptr<void> watcher(nullptr, [this](void*) { cancelled_ = true; });
    request_.outputs[0].buffer->KeepDerived({}, std::shared_ptr<hal::Buffer>(std::move(watcher), nullptr));
  }

  void ExpectCancelled() {
    done_.WaitForNotification();
    const absl::Status status = outcome_.status();
    EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(status.message(), "the run was cancelled");
    EXPECT_EQ(DetailOf(status).value_or(v1::ErrorDetail()).code(), v1::CALL_CANCELLED);
    release_.Notify();
    for (const auto& device : owned_) EXPECT_TRUE(device->queue().Drain(absl::InfiniteFuture()).ok());
    EXPECT_EQ(answers_, 1);
    ExpectOutputs(-1);  // nothing was written, late as the last device came
  }

  void ExpectOutputs(int32_t value) {
    for (const hal::BufferSlice& output : request_.outputs) {
      const auto* const values = static_cast<const int32_t*>(output.host_data());
      EXPECT_EQ(std::vector<int32_t>(values, values + kCount), std::vector<int32_t>(kCount, value));
    }
  }

  std::vector<std::unique_ptr<hal::Device>> owned_;
  Meetings meetings_;
  Thresholds thresholds_{"", ""};
  Collectives collectives_{&meetings_, &thresholds_, absl::Hours(1)};
  Request request_;
  std::atomic<bool> cancelled_{false};
  absl::Notification release_, done_;
  std::atomic<int> answers_{0};
  absl::StatusOr<Report> outcome_;
};

TEST_F(CancelledCollectiveTest, BeforeItBegan) {
  Block();
  cancelled_ = true;
  Begin();
  ExpectCancelled();
}

TEST_F(CancelledCollectiveTest, WhileOneIsMissing) {
  Block();
  Begin();
  // What is behind it in the queue of one that is there is not held up.
  EXPECT_TRUE(owned_[0]->queue().Drain(absl::InfiniteFuture()).ok());
  EXPECT_FALSE(done_.HasBeenNotified());
  cancelled_ = true;
  ExpectCancelled();
}

// All-to-all looks before each piece whether it is wanted.
TEST_F(CancelledCollectiveTest, WhileItWorks) {
  request_.algorithm = kAllToAll;
  CancelAsItBegins();
  Begin();
  done_.WaitForNotification();
  EXPECT_EQ(DetailOf(outcome_.status()).value_or(v1::ErrorDetail()).code(), v1::CALL_CANCELLED);
  EXPECT_EQ(answers_, 1);
  ExpectOutputs(-1);
}

// The others end whole, and are chosen for small tensors alone.
TEST_F(CancelledCollectiveTest, WhileASmallOneWorks) {
  request_.algorithm = kRing;
  CancelAsItBegins();
  Begin();
  done_.WaitForNotification();
  EXPECT_TRUE(cancelled_);
  EXPECT_TRUE(outcome_.ok()) << outcome_.status();
  EXPECT_EQ(answers_, 1);
  ExpectOutputs(1 + 2 + 3);
}

}  // namespace
}  // namespace kiln::runtime::collective
