// DebugService.State: who uses a server, as the server itself says it, and who may be told what.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "kiln/v1/debug_service.pb.h"
#include "tests/e2e/submit/submit_client.h"
#include "tests/e2e/tenants/quota_fixture.h"

namespace kiln::e2e {
namespace {

using State = v1::StateResponse;

class StateTest : public QuotaTest {
 protected:
  static State Ask(Stubs& stubs, uint32_t max_rows = 0) {
    v1::StateRequest request;
    request.set_max_rows(max_rows);
    State state;
    const absl::Status status = Call(*stubs.debug, &v1::DebugService::Stub::State, request, state);
    EXPECT_TRUE(status.ok()) << status;
    return state;
  }

  // With the tenant "a", which has no right but to execute and to debug, and "root", which has all.
  void StartWithTenants() {
    std::string tenants = TenantWith("root", ""), a = TenantWith("a", "requests_per_second: 100000 handles: 2");
    tenants.insert(tenants.rfind('}'), " right: EXECUTE_RIGHT right: DEBUG_RIGHT right: ADMIN_RIGHT ");
    a.insert(a.rfind('}'), " right: EXECUTE_RIGHT right: DEBUG_RIGHT ");
    std::string dumb = TenantWith("dumb", "");
    dumb.insert(dumb.rfind('}'), " right: EXECUTE_RIGHT ");
    WriteFile(tenants + a + dumb);
    v1::ServerConfig config = server::DefaultConfig();
    config.set_tenants(path_);
    Start(config);
    a_ = std::make_unique<Stubs>(address(), "secret of a");
    root_ = std::make_unique<Stubs>(address(), "secret of root");
  }

  std::unique_ptr<Stubs> root_;
};

TEST_F(StateTest, WithoutTenantsItIsTheWhole) {
  Start(server::DefaultConfig());
  const auto buffer = AllocateBytes(*stubs_, 4096);
  ASSERT_TRUE(buffer.ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Execute(*stubs_, AddOne(v1::RESULT_INLINE)).ok());
  const auto token = Open(*stubs_);
  ASSERT_TRUE(token.ok());
  ASSERT_TRUE(AllocateUnder(*stubs_, *token, 1000).ok());

  const State state = Ask(*stubs_);
  EXPECT_TRUE(state.whole());
  EXPECT_EQ(state.tenant(), "");
  ASSERT_EQ(state.devices_size(), 1);
  EXPECT_EQ(state.devices(0).name(), "CPU:0");
  EXPECT_EQ(state.devices(0).kind(), "CPU");
  EXPECT_TRUE(state.devices(0).up());
  EXPECT_GE(state.devices(0).memory_in_use_bytes(), 4096u);
  EXPECT_GT(state.devices(0).busy_seconds_total(), 0);
  ASSERT_EQ(state.tenants_size(), 1);
  EXPECT_GT(state.tenants(0).shares(0).busy_seconds_total(), 0);
  ASSERT_EQ(state.sessions_size(), 1);
  EXPECT_EQ(state.sessions(0).buffers(), 1u);
  EXPECT_EQ(state.sessions(0).bytes(), 1000u);
  ASSERT_EQ(state.programs_size(), 1);
  EXPECT_EQ(state.programs(0).runs(), 3u);
  EXPECT_GT(state.programs(0).device_seconds(), 0);
  EXPECT_GE(state.programs(0).flops(), 8u);
  EXPECT_GE(state.programs(0).bytes_read() + state.programs(0).bytes_written(), 64u);
  EXPECT_EQ(state.programs(0).graph_hash().size(), 64u);
}

TEST_F(StateTest, ATenantSeesItsOwnAndAnAdministratorAll) {
  StartWithTenants();
  ASSERT_TRUE(Execute(*a_, AddOne(v1::RESULT_INLINE)).ok());
  ASSERT_TRUE(Execute(*root_, AddOne(v1::RESULT_INLINE)).ok());
  // More handles than it may have.
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(AllocateBytes(*a_, 64).ok());
  EXPECT_FALSE(AllocateBytes(*a_, 64).ok());

  const State of_a = Ask(*a_), all = Ask(*root_);
  EXPECT_FALSE(of_a.whole());
  EXPECT_EQ(of_a.tenant(), "a");
  ASSERT_EQ(of_a.tenants_size(), 1);
  EXPECT_EQ(of_a.tenants(0).name(), "a");
  EXPECT_EQ(of_a.tenants(0).refusals(), 1u);
  ASSERT_EQ(of_a.programs_size(), 1);
  EXPECT_EQ(of_a.programs(0).tenant(), "a");
  EXPECT_EQ(of_a.programs(0).runs(), 1u);
  EXPECT_EQ(of_a.devices(0).busy_seconds_total(), 0);  // of all
  for (const State::Session& session : of_a.sessions()) EXPECT_EQ(session.tenant(), "a");

  EXPECT_TRUE(all.whole());
  EXPECT_EQ(all.tenant(), "root");
  EXPECT_EQ(all.programs_size(), 2);
  EXPECT_GT(all.devices(0).busy_seconds_total(), 0);
  const auto has = [&all](const std::string& name) {
    return std::any_of(all.tenants().begin(), all.tenants().end(),
                       [&](const State::Tenant& tenant) { return tenant.name() == name; });
  };
  EXPECT_TRUE(has("a") && has("root"));
}

TEST_F(StateTest, WithoutTheRightItIsRefused) {
  StartWithTenants();
  Stubs dumb(address(), "secret of dumb"), unknown(address(), "no secret");
  State state;
  const absl::Status refused = Call(*dumb.debug, &v1::DebugService::Stub::State, v1::StateRequest(), state);
  EXPECT_EQ(DetailOf(refused).value_or(v1::ErrorDetail()).code(), v1::NOT_ALLOWED) << refused;
  const absl::Status who = Call(*unknown.debug, &v1::DebugService::Stub::State, v1::StateRequest(), state);
  EXPECT_EQ(DetailOf(who).value_or(v1::ErrorDetail()).code(), v1::NOT_AUTHENTICATED) << who;
}

TEST_F(StateTest, WhatIsNoRequestIsRefused) {
  Start(server::DefaultConfig());
  const absl::Status status = CallRaw(*stubs_, "/kiln.v1.DebugService/State", "\xff\xff");
  EXPECT_EQ(DetailOf(status).value_or(v1::ErrorDetail()).code(), v1::MALFORMED_MESSAGE) << status;
}

TEST_F(StateTest, AStreamIsShownWhileItStands) {
  Start(server::DefaultConfig());
  {
    SubmitClient stream(*stubs_);
    stream.Allocate(1, 4096);
    EXPECT_EQ(stream.ReadBack(1).size(), 4096u);
    const State state = Ask(*stubs_);
    ASSERT_EQ(state.streams_size(), 1);
    EXPECT_TRUE(state.streams(0).connected());
    EXPECT_EQ(state.streams(0).session(), "");
    EXPECT_GE(state.streams(0).accepted(), 2u);
    ASSERT_EQ(state.sessions_size(), 1);
    EXPECT_EQ(state.sessions(0).bytes(), 4096u);
  }
  EXPECT_TRUE(Eventually([this] { return Ask(*stubs_).streams_size() == 0; }));
}

}  // namespace
}  // namespace kiln::e2e
