#include "server/services/requests/request_pool.h"

#include <gtest/gtest.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/error.h"

namespace kiln::server {
namespace {

// A pool of one thread, which does not begin with what waits before Open().
class RequestPoolTest : public ::testing::Test {
 protected:
  void Block(RequestPool& pool) {
    absl::Notification blocked;
    pool.Push("nobody", [&] {
      blocked.Notify();
      open_.WaitForNotification();
    });
    blocked.WaitForNotification();
  }
  void Open() { open_.Notify(); }

  // Notes that it ran.
  RequestPool::Job Note(std::string name) {
    return [this, name = std::move(name)] {
      absl::MutexLock lock(&mutex_);
      ran_.push_back(name);
    };
  }

  void ExpectRefused(const absl::Status& status, const std::string& limit, uint64_t most, uint64_t used) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    const v1::ErrorDetail detail = DetailOf(status).value_or(v1::ErrorDetail());
    EXPECT_EQ(detail.limit(), limit) << status;
    EXPECT_EQ(detail.limit_value(), most) << status;
    EXPECT_EQ(detail.used(), used) << status;
    EXPECT_EQ(detail.retry_after_ms(), 100u) << status;
  }

  absl::Notification open_;
  absl::Mutex mutex_;
  std::vector<std::string> ran_;
};

TEST_F(RequestPoolTest, CallersHaveTurnsAndEachKeepsItsOrder) {
  {
    RequestPool pool(1);
    Block(pool);
    for (const char* name : {"a1", "a2", "a3"}) EXPECT_TRUE(pool.Offer("a", 1, Note(name)).ok());
    EXPECT_TRUE(pool.Offer("b", 1, Note("b1")).ok());
    pool.Push("c", Note("c1"));
    EXPECT_TRUE(pool.Offer("b", 1, Note("b2")).ok());
    Open();
  }
  EXPECT_EQ(ran_, (std::vector<std::string>{"a1", "b1", "c1", "a2", "b2", "a3"}));
}

TEST_F(RequestPoolTest, OneCallerHasAQuarterAndStreamsDoNotCount) {
  RequestPool pool(1, {.requests = 8, .bytes = 1000});
  Block(pool);
  EXPECT_TRUE(pool.Offer("a", 1, Note("a1")).ok());
  EXPECT_TRUE(pool.Offer("a", 1, Note("a2")).ok());
  for (int i = 0; i < 20; ++i) pool.Push("a", Note("stream"));
  ExpectRefused(pool.Offer("a", 1, Note("a3")), "waiting requests of a caller", 2, 3);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(pool.Offer(absl::StrCat("b", i), 1, Note("b")).ok());
  ExpectRefused(pool.Offer("c", 1, Note("c")), "waiting requests", 8, 9);
  Open();
}

TEST_F(RequestPoolTest, BytesAreBoundedButForAFirstRequest) {
  {
    RequestPool pool(1, {.requests = 80, .bytes = 1000});
    Block(pool);
    EXPECT_TRUE(pool.Offer("a", 700, Note("a1")).ok());
    ExpectRefused(pool.Offer("a", 1, Note("a2")), "bytes of waiting requests of a caller", 250, 701);
    EXPECT_TRUE(pool.Offer("b", 200, Note("b1")).ok());
    EXPECT_TRUE(pool.Offer("b", 50, Note("b2")).ok());
    ExpectRefused(pool.Offer("c", 51, Note("c1")), "bytes of waiting requests", 1000, 1001);
    Open();
  }
  EXPECT_EQ(ran_, (std::vector<std::string>{"a1", "b1", "b2"}));
}

TEST_F(RequestPoolTest, WhatHasBegunWaitsNoMore) {
  RequestPool pool(1, {.requests = 4, .bytes = 1000});
  for (int i = 0; i < 100; ++i) {
    absl::Notification ran;
    EXPECT_TRUE(pool.Offer("a", 900, [&ran] { ran.Notify(); }).ok()) << i;
    ran.WaitForNotification();
  }
}

}  // namespace
}  // namespace kiln::server
