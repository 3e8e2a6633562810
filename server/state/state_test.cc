#include "server/state/state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/clock.h"
#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

using State = v1::StateResponse;

class StateTest : public ::testing::Test, protected EngineWithTenants {
 protected:
  StateTest() { Begin(1); }

  void Begin(int devices) {
    state_ = nullptr;
    Restart(devices);
    state_ = std::make_unique<ServerState>(
        ServerState::Options{.slow_after = absl::Seconds(1), .period = absl::InfiniteDuration()}, engine_.get());
  }

  State Whole(uint32_t max_rows = 0, uint32_t history_seconds = 0) {
    v1::StateRequest asked;
    asked.set_max_rows(max_rows);
    asked.set_history_seconds(history_seconds);
    return state_->Collect(asked, {});
  }
  State Of(const std::string& tenant) { return state_->Collect({}, {&AccountOf(tenant), tenant}); }

  static const State::Tenant* Find(const State& state, const std::string& tenant) {
    for (const State::Tenant& row : state.tenants()) {
      if (row.name() == tenant) return &row;
    }
    return nullptr;
  }

  // Its turn, which it gets at once if nobody else has one.
  void Ask(const std::string& tenant, uint64_t estimate_ns, std::vector<Turn>* had, uint8_t program = 0) {
    TurnRequest request;
    request.control.account = &AccountOf(tenant);
    request.devices = {engine_->devices()[0].get()};
    request.estimate_ns = estimate_ns;
    request.program.bytes[0] = program;
    engine_->turns().Take(std::move(request), [had](absl::StatusOr<Turn> turn) {
      ASSERT_TRUE(turn.ok()) << turn.status();
      had->push_back(*std::move(turn));
    });
  }
  void Use(const std::string& tenant, uint64_t ns) {
    std::vector<Turn> had;
    Ask(tenant, 1, &had);
    ASSERT_EQ(had.size(), 1u);
    had.front().End(ns);
  }

  std::unique_ptr<ServerState> state_;
};

TEST_F(StateTest, OfAnIdleServer) {
  const State state = Whole();
  EXPECT_TRUE(state.whole());
  EXPECT_GT(state.now_ns(), 0);
  EXPECT_FALSE(state.server().version().empty());
  EXPECT_GE(state.server().up_seconds(), 0);
  ASSERT_EQ(state.devices_size(), 1);
  const State::Device& device = state.devices(0);
  EXPECT_EQ(device.name(), "NULL:0");
  EXPECT_EQ(device.kind(), "NULL_TARGET");
  EXPECT_TRUE(device.up());
  EXPECT_EQ(device.memory_limit_bytes(), kMemory);
  EXPECT_EQ(device.running_size(), 0);
  EXPECT_EQ(device.busy_seconds_total(), 0);
  ASSERT_EQ(state.tenants_size(), 1);  // nobody's, as there are no tenants
  EXPECT_EQ(state.tenants(0).name(), "");
  EXPECT_EQ(state.compiler().threads(), 1u);
  EXPECT_EQ(state.programs_size(), 0);
  EXPECT_EQ(state.slow_after_seconds(), 1);
}

TEST_F(StateTest, SharesAreWhatWasMeasuredAgainstWeights) {
  AccountOf("a").SetShare(1, false);
  AccountOf("b").SetShare(3, true);
  AccountOf("idle").SetShare(4, false);
  const absl::Time begin = absl::Now();
  state_->SampleShares(begin);
  Use("a", 200'000'000);
  Use("b", 600'000'000);
  state_->SampleShares(begin + absl::Seconds(1));
  const State state = Whole(0, 10);
  const State::Tenant *a = Find(state, "a"), *b = Find(state, "b"), *idle = Find(state, "idle");
  ASSERT_TRUE(a != nullptr && b != nullptr && idle != nullptr);
  EXPECT_EQ(Find(state, ""), nullptr);  // with tenants, nobody else has had anything
  EXPECT_EQ(b->weight(), 3u);
  EXPECT_TRUE(b->interactive());
  ASSERT_EQ(a->shares_size(), 1);
  EXPECT_NEAR(a->shares(0).busy_second(), 0.2, 1e-6);
  EXPECT_NEAR(a->shares(0).share_second(), 0.25, 1e-6);
  EXPECT_NEAR(b->shares(0).share_second(), 0.75, 1e-6);
  EXPECT_NEAR(b->shares(0).share_minute(), 0.75, 1e-6);
  EXPECT_NEAR(a->shares(0).entitled_second(), 0.25, 1e-6);
  EXPECT_NEAR(b->shares(0).entitled_second(), 0.75, 1e-6);
  EXPECT_EQ(idle->shares(0).entitled_second(), 0);
  EXPECT_NEAR(b->shares(0).busy_seconds_total(), 0.6, 1e-6);
  EXPECT_NEAR(state.devices(0).busy_second(), 0.8, 1e-6);
  EXPECT_NEAR(state.devices(0).busy_seconds_total(), 0.8, 1e-6);
  ASSERT_EQ(state.history_size(), 2);
  EXPECT_EQ(state.history(0).tenant(), "b");
  EXPECT_NEAR(state.history(0).busy(state.history(0).busy_size() - 1), 0.6, 1e-3);
  EXPECT_EQ(Whole().history_size(), 0);
}

TEST_F(StateTest, WhoIsOnADeviceAndWhoWaits) {
  std::vector<Turn> had;
  Ask("a", 3'600'000'000'000, &had, 0xab);  // an hour
  Ask("b", 5'000'000, &had);
  Ask("b", 5'000'000, &had);
  ASSERT_EQ(had.size(), 1u);
  const State state = Whole(), of_b = Of("b"), of_a = Of("a");
  ASSERT_EQ(state.devices(0).running_size(), 1);
  const State::Run& run = state.devices(0).running(0);
  EXPECT_EQ(run.tenant(), "a");
  EXPECT_EQ(run.graph_hash(), "ab" + std::string(62, '0'));
  EXPECT_EQ(run.devices(), 1u);
  EXPECT_EQ(state.devices(0).in_flight(), 1u);
  EXPECT_EQ(state.devices(0).waiting(), 2u);
  // For a newcomer: what is left of a's slice, as its run pauses for others, and some of b's.
  EXPECT_GE(state.devices(0).predicted_wait_seconds(), 0.005);
  EXPECT_LE(state.devices(0).predicted_wait_seconds(), 0.011);
  EXPECT_EQ(Find(state, "b")->waiting(), 2u);
  EXPECT_EQ(Find(state, "a")->running(), 1u);
  // What others do is not b's to know.
  EXPECT_FALSE(of_b.whole());
  EXPECT_EQ(of_b.tenant(), "b");
  EXPECT_EQ(of_b.devices(0).running_size(), 0);
  EXPECT_EQ(of_b.devices(0).waiting(), 0u);
  EXPECT_EQ(of_b.devices(0).in_flight(), 0u);
  EXPECT_EQ(of_b.devices(0).predicted_wait_seconds(), 0);
  EXPECT_EQ(of_b.devices(0).memory_in_use_bytes(), 0u);
  ASSERT_EQ(of_b.tenants_size(), 1);
  EXPECT_EQ(of_b.tenants(0).name(), "b");
  EXPECT_EQ(of_b.tenants(0).shares(0).waiting(), 2u);
  EXPECT_EQ(of_b.tenants(0).shares(0).entitled_second(), 0);
  ASSERT_EQ(of_a.devices(0).running_size(), 1);
  while (!had.empty()) {
    std::vector<Turn> ended;
    ended.swap(had);
    for (Turn& turn : ended) turn.End(1000);
  }
  EXPECT_EQ(Whole().devices(0).running_size(), 0);
}

TEST_F(StateTest, WhatIsWorkedOnCountsAsItGoesOn) {
  std::vector<Turn> had;
  Ask("a", 1'000'000'000, &had);
  const uint64_t first = engine_->turns().Look(*engine_->devices()[0]).measured_ns[1];
  const uint64_t then = engine_->turns().Look(*engine_->devices()[0]).measured_ns[1];
  EXPECT_LE(first, then);
  EXPECT_GT(then, 0u);
  had.front().End(7);
  EXPECT_EQ(engine_->turns().Look(*engine_->devices()[0]).measured_ns[1], 7u);
}

TEST_F(StateTest, MemoryQuotasAndRefusals) {
  ASSERT_TRUE(SetTenants({Named("a", 4096), Named("b")}).ok());
  SetLimit("a", Quota::kDeviceBytes, 8192);
  const auto handle = Allocate("a", 1000);
  ASSERT_TRUE(handle.ok()) << handle.status();
  AccountOf("a").CountRefusal();
  const State state = Whole();
  const State::Tenant& a = *Find(state, "a");
  ASSERT_GE(a.memory_size(), 1);
  EXPECT_EQ(a.memory(0).kind(), "buffers");
  EXPECT_EQ(a.memory(0).device(), "NULL:0");
  EXPECT_EQ(a.memory(0).bytes(), 1000u);
  EXPECT_EQ(a.memory(0).guaranteed_bytes(), 4096u);
  EXPECT_EQ(a.refusals(), 1u);
  const auto quota = std::find_if(a.quotas().begin(), a.quotas().end(),
                                  [](const auto& each) { return each.name() == "device_bytes"; });
  ASSERT_NE(quota, a.quotas().end());
  EXPECT_EQ(quota->used(), 1000u);
  EXPECT_EQ(quota->limit(), 8192u);
  // What calls without a session made.
  const auto home = std::find_if(state.sessions().begin(), state.sessions().end(),
                                 [](const auto& session) { return session.tenant() == "a"; });
  ASSERT_NE(home, state.sessions().end());
  EXPECT_EQ(home->id(), "");
  EXPECT_EQ(home->buffers(), 1u);
  EXPECT_EQ(home->bytes(), 1000u);
  ASSERT_TRUE(Free("a", *handle).ok());
  EXPECT_EQ(Of("a").sessions(0).bytes(), 0u);
}

TEST_F(StateTest, SessionsHaveNamesThatAreNoTokens) {
  const auto opened = engine_->sessions().Open("", 60, "ipv4:10.0.0.1:4711", "a");
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(engine_->sessions().Open("", 60, "ipv4:10.0.0.2:4712", "b").ok());
  const State of_a = Of("a");
  ASSERT_EQ(of_a.sessions_size(), 1);
  const State::Session& session = of_a.sessions(0);
  EXPECT_EQ(session.id().size(), 8u);
  EXPECT_EQ(absl::BytesToHexString(opened->token).find(session.id()), std::string::npos);
  EXPECT_EQ(session.tenant(), "a");
  EXPECT_EQ(session.host(), "ipv4:10.0.0.1");
  EXPECT_GT(session.lease_left_seconds(), 0);
  EXPECT_LE(session.lease_left_seconds(), 60);
  EXPECT_EQ(Whole().sessions_size(), 2);
  EXPECT_EQ(Find(Whole(), "a")->sessions(), 1u);
  const State one = Whole(1);
  EXPECT_EQ(one.sessions_size(), 1);
  EXPECT_EQ(one.sessions_left_out(), 1u);
}

TEST_F(StateTest, ProgramsAreTheirTenants) {
  ASSERT_TRUE(Compile("a", 1).ok());
  ASSERT_TRUE(Compile("b", 2).ok());
  const State state = Whole(), of_a = Of("a");
  ASSERT_EQ(state.programs_size(), 2);
  EXPECT_EQ(state.compiler().compiled(), 2u);
  ASSERT_EQ(of_a.programs_size(), 1);
  const State::Program& program = of_a.programs(0);
  EXPECT_EQ(program.tenant(), "a");
  EXPECT_EQ(program.graph_hash(), absl::BytesToHexString(HashesOf("a").front()));
  EXPECT_EQ(program.device(), "NULL:0");
  EXPECT_EQ(program.kernels(), 1u);
  EXPECT_EQ(program.runs(), 0u);
  EXPECT_EQ(program.idle_seconds(), 0);
  EXPECT_EQ(Whole(1).programs_left_out(), 1u);
}

TEST_F(StateTest, WhatIsCompiledNow) {
  State state;
  working_ = [&] { state = Whole(); };
  ASSERT_TRUE(Compile("a", 1).ok());
  ASSERT_EQ(state.compiler().running_size(), 1);
  EXPECT_EQ(state.compiler().running(0).tenant(), "a");
  EXPECT_GE(state.compiler().running(0).seconds(), 0);
}

TEST_F(StateTest, SlowCallsAreTheLatestFirstAndEachTenantsOwn) {
  SlowCalls& slow = state_->slow_calls();
  EXPECT_FALSE(slow.IsSlow(absl::Milliseconds(999)));
  EXPECT_TRUE(slow.IsSlow(absl::Seconds(1)));
  EXPECT_FALSE(SlowCalls(absl::ZeroDuration()).IsSlow(absl::Hours(1)));
  const absl::Time end = absl::Now() - absl::Seconds(5);
  for (int i = 0; i < 130; ++i) {
    CallRecord record;
    record.owner = OwnerNumber(&AccountOf(i % 2 == 0 ? "a" : "b"));
    record.time = {absl::ToUnixNanos(end - absl::Seconds(2 + i)), absl::ToUnixNanos(end)};
    record.status = 4;
    record.parts.device.Set("NULL:0");
    record.parts.Set(Part::kTurn, end - absl::Seconds(1), end);
    slow.Keep({"KernelService.Execute", record});
  }
  const State state = Whole(), of_a = Of("a");
  ASSERT_EQ(state.slow_calls_size(), 100);
  EXPECT_EQ(state.slow_calls_left_out(), 30u);
  const State::Call& call = state.slow_calls(0);
  EXPECT_EQ(call.method(), "KernelService.Execute");
  EXPECT_EQ(call.tenant(), "b");
  EXPECT_EQ(call.device(), "NULL:0");
  EXPECT_EQ(call.status(), "DEADLINE_EXCEEDED");
  EXPECT_NEAR(call.seconds(), 131, 1e-6);
  EXPECT_GE(call.ago_seconds(), 5);
  ASSERT_EQ(call.parts_size(), 1);
  EXPECT_EQ(call.parts(0).name(), "turn");
  EXPECT_NEAR(call.parts(0).seconds(), 1, 1e-6);
  ASSERT_EQ(of_a.slow_calls_size(), 50);
  for (const State::Call& each : of_a.slow_calls()) EXPECT_EQ(each.tenant(), "a");
  EXPECT_EQ(of_a.slow_calls_left_out(), 0u);
}

// A tenant does not hear of devices that it may not use.
TEST_F(StateTest, DevicesOfATenant) {
  Begin(2);
  ASSERT_TRUE(SetTenants({Named("a", 0, {"NULL:1"}), Named("b")}).ok());
  const State of_a = Of("a");
  ASSERT_EQ(of_a.devices_size(), 1);
  EXPECT_EQ(of_a.devices(0).name(), "NULL:1");
  ASSERT_EQ(of_a.tenants(0).shares_size(), 1);
  EXPECT_EQ(of_a.tenants(0).shares(0).device(), "NULL:1");
  EXPECT_EQ(Of("b").devices_size(), 2);
  EXPECT_EQ(Whole(1).devices_left_out(), 1u);
}

}  // namespace
}  // namespace kiln::server
