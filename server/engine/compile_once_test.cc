// One graph for several devices: one thread compiles it, and each caller waits for no longer than it is waited for.
#include <gtest/gtest.h>

#include <atomic>
#include <list>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/error.h"
#include "server/engine/programs/failed_stages.h"
#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

constexpr int kDevices = 4;
constexpr absl::Duration kLong = absl::Seconds(20);

class CompileOnceTest : public ::testing::Test, protected EngineWithTenants {
 protected:
  CompileOnceTest() {
    Restart(kDevices, /*compile_threads=*/2);
    ending_ = [this] {
      if (compiles_ > 1) return absl::OkStatus();
      began_.Notify();
      gate_.WaitForNotification();
      return first_ends_with_;
    };
  }
  ~CompileOnceTest() override {
    if (!gate_.HasBeenNotified()) gate_.Notify();
    // A program is charged to an account of the engine's: it goes first.
    for (Call& call : calls_) {
      if (call.Ended()) call.result = absl::CancelledError();
    }
    engine_ = nullptr;
  }

  // A call under way.
  struct Call {
    v1::Graph graph;
    NotedParts parts;
    std::atomic<bool> cancelled{false};
    absl::StatusOr<CompileResult> result;
    absl::Notification done;
    bool Ended() { return done.WaitForNotificationWithTimeout(kLong); }
  };

  Call& Ask(const std::string& device, int number, absl::Time deadline = absl::InfiniteFuture()) {
    Call& call = calls_.emplace_back();
    call.graph = GraphOf(number);
    Control control;
    control.cancelled = &call.cancelled;
    control.deadline = deadline;
    control.account = &AccountOf("a");
    engine_->Compile({&call.graph, device, {}, Home("a"), nullptr, &call.parts}, control,
                     [&call](absl::StatusOr<CompileResult> result) {
                       call.result = std::move(result);
                       call.done.Notify();
                     });
    return call;
  }

  static std::vector<std::string> StagesOf(const Call& call) {
    std::vector<std::string> names;
    if (call.parts.stages == nullptr) return names;
    for (const StageTime& stage : call.parts.stages->all())
      names.push_back(absl::StrCat(NameOf(stage.stage), stage.failed ? " failed" : ""));
    return names;
  }

  // Until so many wait for what another has begun.
  void AwaitJoined(size_t callers) {
    const absl::Time end = SteadyNow() + kLong;
    while (engine_->compiling().joined < callers && SteadyNow() < end) std::this_thread::yield();
    EXPECT_EQ(engine_->compiling().joined, callers);
  }

  std::list<Call> calls_;
  absl::Notification began_;  // the first compilation
  absl::Notification gate_;   // which ends behind it
  absl::Status first_ends_with_;
};

TEST_F(CompileOnceTest, DevicesOfOneTargetTakeOneThread) {
  Call& first = Ask("NULL:0", 1);
  began_.WaitForNotification();
  std::vector<Call*> others;
  for (int i = 1; i < kDevices; ++i) others.push_back(&Ask(absl::StrCat("NULL:", i), 1));
  AwaitJoined(kDevices - 1);
  // Two threads compile, and one of them is free for this.
  Call& beside = Ask("NULL:0", 2);
  EXPECT_TRUE(beside.Ended());
  EXPECT_EQ(engine_->compiling().waiting, 0u);
  gate_.Notify();
  ASSERT_TRUE(first.Ended());
  EXPECT_TRUE(first.result.ok()) << first.result.status();
  for (Call* other : others) {
    ASSERT_TRUE(other->Ended());
    ASSERT_TRUE(other->result.ok()) << other->result.status();
    EXPECT_NE(other->result->program->device, first.result->program->device);
    EXPECT_EQ(StagesOf(*other), std::vector<std::string>({"wait", "code", "load"})) << "of what it waited for";
  }
  EXPECT_EQ(StagesOf(first), std::vector<std::string>({"wait", "code", "load"}));
  Call& again = Ask("NULL:0", 1);
  ASSERT_TRUE(again.Ended());
  EXPECT_EQ(StagesOf(again), std::vector<std::string>()) << "its program was there";
  EXPECT_NE(again.parts.parts[static_cast<size_t>(Part::kCache)].end_ns, 0);
  EXPECT_EQ(again.parts.parts[static_cast<size_t>(Part::kCompile)].end_ns, 0);
  EXPECT_EQ(compiles_, 2);
}

TEST_F(CompileOnceTest, OnesGoingIsNotTheOthers) {
  first_ends_with_ = absl::CancelledError();
  Call& first = Ask("NULL:0", 1);
  began_.WaitForNotification();
  Call& second = Ask("NULL:1", 1);
  Call& third = Ask("NULL:2", 1);
  AwaitJoined(2);
  first.cancelled = true;
  gate_.Notify();
  ASSERT_TRUE(first.Ended() && second.Ended() && third.Ended());
  EXPECT_EQ(first.result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(second.result.ok()) << second.result.status();
  EXPECT_TRUE(third.result.ok()) << third.result.status();
  EXPECT_EQ(compiles_, 2) << "one of them began again, and the other joined that";
}

TEST_F(CompileOnceTest, WhatTheCompilerSaysGoesToAll) {
  first_ends_with_ = MakeError(v1::UNSUPPORTED_OP, "no");
  Call& first = Ask("NULL:0", 1);
  began_.WaitForNotification();
  Call& second = Ask("NULL:1", 1);
  AwaitJoined(1);
  gate_.Notify();
  ASSERT_TRUE(first.Ended() && second.Ended());
  EXPECT_EQ(CodeOf(first.result.status()), v1::UNSUPPORTED_OP);
  EXPECT_EQ(CodeOf(second.result.status()), v1::UNSUPPORTED_OP);
  for (const Call* call : {&first, &second}) {
    EXPECT_EQ(StagesOf(*call), std::vector<std::string>({"wait", "code failed"}));
    EXPECT_FALSE(call->result.status().GetPayload(kStagesUrl).has_value()) << "they are no client's to read there";
    EXPECT_NE(call->parts.parts[static_cast<size_t>(Part::kCompile)].end_ns, 0);
  }
}

TEST_F(CompileOnceTest, WhatCannotBeLoadedFailedThere) {
  gate_.Notify();
  loading_ = [] { return MakeError(v1::OUT_OF_MEMORY, "full"); };
  Call& call = Ask("NULL:0", 1);
  ASSERT_TRUE(call.Ended());
  EXPECT_EQ(CodeOf(call.result.status()), v1::OUT_OF_MEMORY);
  EXPECT_EQ(StagesOf(call), std::vector<std::string>({"wait", "code", "load failed"}));
}

TEST_F(CompileOnceTest, WhoWaitsForAnothersCompilationIsToldInTime) {
  Call& first = Ask("NULL:0", 1);
  began_.WaitForNotification();
  const absl::Time soon = SteadyNow() + absl::Milliseconds(20);
  Call& there = Ask("NULL:0", 1, soon);
  Call& elsewhere = Ask("NULL:1", 1, soon);
  Call& cancelled = Ask("NULL:2", 1);
  Call& behind = Ask("NULL:1", 1);  // the one before it asks for it
  cancelled.cancelled = true;
  // The compilation is still under way.
  ASSERT_TRUE(there.Ended() && elsewhere.Ended() && cancelled.Ended());
  EXPECT_EQ(CodeOf(there.result.status()), v1::DEADLINE_PASSED);
  EXPECT_EQ(CodeOf(elsewhere.result.status()), v1::DEADLINE_PASSED);
  EXPECT_EQ(cancelled.result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_FALSE(first.done.HasBeenNotified());
  gate_.Notify();
  ASSERT_TRUE(first.Ended() && behind.Ended());
  EXPECT_TRUE(first.result.ok()) << first.result.status();
  EXPECT_TRUE(behind.result.ok()) << behind.result.status();
  EXPECT_EQ(compiles_, 1);
}

}  // namespace
}  // namespace kiln::server
