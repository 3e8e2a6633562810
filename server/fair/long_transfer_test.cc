#include "server/fair/long_transfer.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "runtime/drivers/null/device.h"
#include "runtime/hal/wanted_copy.h"

namespace kiln::server {
namespace {

namespace hal = runtime::hal;
using hal::BufferSlice;

// What goes piece by piece, and what goes at once.
constexpr uint64_t kLong = (8 << 20) + 5, kShort = 1000;

class LongTransferTest : public testing::Test {
 protected:
  BufferSlice Filled(uint64_t bytes, char with) {
    auto slice = BufferSlice::Whole(*device_->allocator().Allocate(bytes, hal::MemoryUse::kClient));
    std::memset(slice.host_data(), with, bytes);
    return slice;
  }
  static std::string BytesOf(const BufferSlice& slice) {
    return {static_cast<const char*>(slice.host_data()), slice.bytes};
  }
  template <typename Begin>
  static absl::Status Outcome(const Begin& begin) {
    absl::Status outcome;
    absl::Notification ended;
    begin([&](absl::Status status) {
      outcome = std::move(status);
      ended.Notify();
    });
    ended.WaitForNotification();
    return outcome;
  }
  // What is kept beside a buffer goes when something begins to write to it.
  void CancelAsItBegins(const BufferSlice& slice) {
    std::shared_ptr<void> watcher(nullptr, [this](void*) { cancelled_ = true; });
    slice.buffer->KeepDerived({}, std::shared_ptr<hal::Buffer>(std::move(watcher), nullptr));
  }

  std::unique_ptr<hal::Device> device_ = *runtime::null::CreateDevice({.name = "NULL:0"});
  std::atomic<bool> cancelled_{false};
  const hal::LaunchControl control_{.cancelled = &cancelled_};
};

TEST_F(LongTransferTest, EachDoesWhatTheQueuesDoes) {
  for (const uint64_t bytes : {kLong, kShort}) {
    const BufferSlice from = Filled(bytes, 'f'), to = Filled(bytes, 't');
    std::string host(bytes, 'h');
    EXPECT_TRUE(Outcome([&](auto done) { LongCopy(*device_, from, to, control_, done); }).ok());
    EXPECT_EQ(BytesOf(to), std::string(bytes, 'f'));
    EXPECT_TRUE(Outcome([&](auto done) { LongWrite(*device_, host.data(), to, control_, done); }).ok());
    EXPECT_EQ(BytesOf(to), std::string(bytes, 'h'));
    EXPECT_TRUE(Outcome([&](auto done) { LongRead(*device_, from, host.data(), control_, done); }).ok());
    EXPECT_EQ(host, std::string(bytes, 'f'));
    EXPECT_TRUE(Outcome([&](auto done) { LongFill(*device_, to, "abcd", control_, done); }).ok());
    for (const uint64_t at : {uint64_t{0}, bytes / 2, bytes - 1}) EXPECT_EQ(BytesOf(to)[at], "abcd"[at % 4]);
  }
}

TEST_F(LongTransferTest, OneThatIsStoppedBeforeItWritesHasWrittenNothing) {
  const BufferSlice from = Filled(kLong, 'f'), to = Filled(kLong, 't');
  const std::string host(kLong, 'h');
  const auto expect_nothing = [&](const auto& begin) {
    cancelled_ = false;
    CancelAsItBegins(to);
    const absl::Status status = Outcome(begin);
    EXPECT_TRUE(absl::IsCancelled(status)) << status;
    EXPECT_FALSE(hal::IsPartly(status));
    EXPECT_EQ(BytesOf(to), std::string(kLong, 't'));
  };
  expect_nothing([&](auto done) { LongCopy(*device_, from, to, control_, done); });
  expect_nothing([&](auto done) { LongWrite(*device_, host.data(), to, control_, done); });
  expect_nothing([&](auto done) { LongFill(*device_, to, "abcd", control_, done); });
  std::string read(kLong, 'r');
  EXPECT_TRUE(absl::IsCancelled(Outcome([&](auto done) { LongRead(*device_, from, read.data(), control_, done); })));
  EXPECT_EQ(read, std::string(kLong, 'r'));
}

TEST_F(LongTransferTest, WhatIsWrongIsRefused) {
  const BufferSlice from = Filled(kLong, 'f'), to = Filled(kLong + 1, 't');
  const BufferSlice beyond = {to.buffer, 2, kLong};
  EXPECT_FALSE(Outcome([&](auto done) { LongCopy(*device_, from, to, control_, done); }).ok());
  EXPECT_FALSE(Outcome([&](auto done) { LongFill(*device_, beyond, "abcd", control_, done); }).ok());
  EXPECT_FALSE(Outcome([&](auto done) { LongWrite(*device_, from.host_data(), beyond, control_, done); }).ok());
  EXPECT_EQ(BytesOf(to), std::string(kLong + 1, 't'));
}

}  // namespace
}  // namespace kiln::server
