// Who leaves while its program is loaded is answered at once, and the program is there for whoever comes next.
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/store/disk_store.h"
#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

constexpr absl::Duration kLong = absl::Seconds(20);

class LeavingTest : public ::testing::Test, protected EngineWithTenants {
 protected:
  LeavingTest() {
    loading_ = [this] {
      if (++loads_ != blocked_) return absl::OkStatus();
      began_.Notify();
      gate_.WaitForNotification();
      return ends_with_;
    };
  }
  ~LeavingTest() override {
    Open();
    // What they were answered with is the engine's, and of its devices.
    for (Call& call : calls_) {
      if (call.Ended()) call.result = absl::UnknownError("over");
    }
    engine_ = nullptr;
  }

  void Open() {
    if (!gate_.HasBeenNotified()) gate_.Notify();
  }

  // A call under way. Its graph is gone as soon as it has been answered, as a client's is.
  struct Call {
    std::unique_ptr<v1::Graph> graph;
    std::atomic<bool> cancelled{false};
    absl::StatusOr<CompileResult> result;
    absl::Notification done;
    bool Ended() { return done.WaitForNotificationWithTimeout(kLong); }
  };

  Call& Ask(const std::string& tenant, int number, const std::string& device = "",
            absl::Time deadline = absl::InfiniteFuture()) {
    Call& call = calls_.emplace_back();
    call.graph = std::make_unique<v1::Graph>(GraphOf(number));
    Control control;
    control.cancelled = &call.cancelled;
    control.deadline = deadline;
    control.account = &AccountOf(tenant);
    engine_->Compile({call.graph.get(), device, {}, Home(tenant)}, control,
                     [&call](absl::StatusOr<CompileResult> result) {
                       call.result = std::move(result);
                       call.graph = nullptr;
                       call.done.Notify();
                     });
    return call;
  }

  // Until so many are answered as soon as they are not wanted any more.
  void AwaitWatched(size_t callers) {
    const absl::Time end = SteadyNow() + kLong;
    while (engine_->compiling().joined != callers && SteadyNow() < end) std::this_thread::yield();
    EXPECT_EQ(engine_->compiling().joined, callers);
  }

  // Once it is being loaded: cancels, and waits for the answer.
  void Leave(Call& call) {
    call.cancelled = true;
    ASSERT_TRUE(call.Ended());
    EXPECT_EQ(CodeOf(call.result.status()), v1::CALL_CANCELLED) << call.result.status();
  }

  void AwaitIdle() {
    const absl::Time end = SteadyNow() + kLong;
    while (!engine_->compiling().running.empty() && SteadyNow() < end) std::this_thread::yield();
    EXPECT_TRUE(engine_->compiling().running.empty());
  }

  // An engine that has in memory nothing of what is on disk.
  void RestartWithDisk() {
    if (disk_ == nullptr) {
      const std::string folder = ::testing::TempDir() + "/leaving_test";
      std::filesystem::remove_all(folder);
      auto store = store::DiskStore::Open(folder, {});
      ASSERT_TRUE(store.ok()) << store.status();
      disk_ = std::make_shared<ProgramDisk>(*std::move(store), "a compiler", [](const DiskEvent&) {});
    }
    Restart(1);
  }

  std::list<Call> calls_;
  std::atomic<int> loads_{0};
  int blocked_ = 1;           // which load stands still
  absl::Notification began_;  // that one
  absl::Notification gate_;   // which ends behind it
  absl::Status ends_with_;
};

TEST_F(LeavingTest, CancelledWhileItLoads) {
  Call& first = Ask("a", 1);
  began_.WaitForNotification();
  Call& second = Ask("a", 1);
  AwaitWatched(2);
  Leave(first);
  EXPECT_FALSE(second.done.HasBeenNotified());
  EXPECT_TRUE(HashesOf("a").empty());
  Open();
  ASSERT_TRUE(second.Ended());
  ASSERT_TRUE(second.result.ok()) << second.result.status();
  EXPECT_EQ(compiles_, 1);
  EXPECT_EQ(loads_, 1);
  EXPECT_TRUE(Compile("a", 1)->from_cache);
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), each_);
}

TEST_F(LeavingTest, ItsDeadlinePassesWhileItLoads) {
  Call& first = Ask("a", 1, "", SteadyNow() + absl::Milliseconds(250));
  ASSERT_TRUE(first.Ended());
  EXPECT_EQ(CodeOf(first.result.status()), v1::DEADLINE_PASSED) << first.result.status();
  ASSERT_TRUE(began_.HasBeenNotified()) << "it was not compiled in time";
  Open();
  EXPECT_TRUE(Compile("a", 1).ok());
  EXPECT_EQ(compiles_, 1);
  EXPECT_EQ(loads_, 1);
}

TEST_F(LeavingTest, WhatNobodyWaitsForIsKeptAndPaidFor) {
  Call& first = Ask("a", 1);
  began_.WaitForNotification();
  Leave(first);
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), 0u);
  EXPECT_EQ(AccountOf("a").used(Quota::kCompiles), 1u) << "a thread is still at it";
  Open();
  AwaitIdle();
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), each_);
  EXPECT_EQ(AccountOf("a").used(Quota::kCompiles), 0u);
  EXPECT_EQ(HashesOf("a").size(), 1u);
}

TEST_F(LeavingTest, WhatCannotBePaidForIsDropped) {
  SetLimit("a", Quota::kProgramBytes, each_ - 1);
  Call& first = Ask("a", 1);
  began_.WaitForNotification();
  Leave(first);
  Open();
  AwaitIdle();
  EXPECT_EQ(AccountOf("a").used(Quota::kProgramBytes), 0u);
  EXPECT_TRUE(HashesOf("a").empty());
  EXPECT_EQ(engine_->devices()[0]->stats().modules, 0u);
}

TEST_F(LeavingTest, TheEngineEndsOnceItIsLoaded) {
  Call& first = Ask("a", 1);
  began_.WaitForNotification();
  Leave(first);
  std::thread ends([this] { engine_ = nullptr; });
  Open();
  ends.join();
  EXPECT_EQ(loads_, 1);
}

// The thread that compiled for both loads for both.
TEST_F(LeavingTest, AnotherDeviceOfTheTarget) {
  Restart(2, /*compile_threads=*/2);
  blocked_ = 2;
  absl::Notification compiling, joined;
  ending_ = [&] {
    compiling.Notify();
    joined.WaitForNotification();
    return absl::OkStatus();
  };
  Call& first = Ask("a", 1, "NULL:0");
  compiling.WaitForNotification();
  Call& second = Ask("a", 1, "NULL:1");
  AwaitWatched(1);
  joined.Notify();
  ASSERT_TRUE(first.Ended());
  EXPECT_TRUE(first.result.ok()) << first.result.status();
  began_.WaitForNotification();
  Leave(second);
  Open();
  EXPECT_TRUE(Compile("a", 1, "NULL:1").ok());
  EXPECT_EQ(compiles_, 1);
  EXPECT_EQ(loads_, 2);
}

TEST_F(LeavingTest, FromDisk) {
  blocked_ = 2;
  RestartWithDisk();
  ASSERT_TRUE(Compile("a", 1).ok());
  RestartWithDisk();
  Call& first = Ask("a", 1);
  began_.WaitForNotification();
  Leave(first);
  Open();
  EXPECT_TRUE(Compile("a", 1)->from_cache);
  EXPECT_EQ(compiles_, 1);
  EXPECT_EQ(loads_, 2);
}

// Then it has to be compiled, by somebody whose graph is still there.
TEST_F(LeavingTest, WhatIsOnDiskCannotBeLoaded) {
  blocked_ = 2;
  ends_with_ = MakeError(v1::INTERNAL_FAULT, "no");
  RestartWithDisk();
  ASSERT_TRUE(Compile("a", 1).ok());
  RestartWithDisk();
  Call& first = Ask("a", 1);
  began_.WaitForNotification();
  Call& second = Ask("a", 1);
  AwaitWatched(2);
  Leave(first);
  Open();
  ASSERT_TRUE(second.Ended());
  ASSERT_TRUE(second.result.ok()) << second.result.status();
  EXPECT_EQ(compiles_, 2);
}

TEST_F(LeavingTest, HiddenCodeCannotBeLoaded) {
  Tenant a = Named("a"), b = Named("b");
  a.cache_sharing = b.cache_sharing = CacheSharing::kHidden;
  ASSERT_TRUE(SetTenants({a, b}).ok());
  blocked_ = 2;
  ends_with_ = MakeError(v1::INTERNAL_FAULT, "no");
  ASSERT_TRUE(Compile("a", 1).ok());
  Call& first = Ask("b", 1);
  began_.WaitForNotification();
  Call& second = Ask("b", 1);
  AwaitWatched(2);
  Leave(first);
  EXPECT_EQ(compiles_, 1);
  Open();
  ASSERT_TRUE(second.Ended());
  ASSERT_TRUE(second.result.ok()) << second.result.status();
  EXPECT_EQ(loads_, 3);
}

}  // namespace
}  // namespace kiln::server
