// What a tenant left in a device's memory, and what another finds there whose program writes nothing of what it should:
// the device computes nothing, so the bytes are as they were handed over.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr char kSecret = '\xa5';

// The number of the graph whose program takes so many bytes and has no result.
constexpr int kTakes = 2;

// A program with a result, an arena and constants, of so many bytes each.
absl::StatusOr<CompiledProgram> Writes(const v1::Graph& graph, const v1::Target& target, const compiler::Options&,
                                       compiler::CompileObserver*) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  v1::Kernel& kernel = *executable.add_kernels();
  kernel.set_symbol("k");
  kernel.set_iterations(1);
  if (graph.nodes(0).constant().i() == kTakes) {
    v1::Signature::Parameter& parameter = *executable.mutable_signature()->add_parameters();
    parameter.set_slot(0);
    parameter.set_dtype(v1::UINT8);
    parameter.add_shape(kBytes);
    parameter.set_bytes(kBytes);
    executable.add_steps()->add_operands()->set_space(v1::Operand::PARAMETER);
    return executable;
  }
  executable.set_arena_bytes(kBytes);
  executable.set_constants(std::string(kBytes, 'c'));
  v1::Signature::Result& result = *executable.mutable_signature()->add_results();
  result.set_dtype(v1::UINT8);
  result.add_shape(kBytes);
  result.set_bytes(kBytes);
  v1::Step& step = *executable.add_steps();
  for (const auto space : {v1::Operand::RESULT, v1::Operand::ARENA, v1::Operand::CONSTANTS}) {
    v1::Operand& operand = *step.add_operands();
    operand.set_space(space);
    operand.set_written(space != v1::Operand::CONSTANTS);
  }
  return executable;
}

class LeftoversTest : public ::testing::Test, protected EngineWithTenants {
 protected:
  LeftoversTest() {
    auto device = *runtime::null::CreateDevice({.name = "NULL:0", .memory_limit_bytes = kMemory});
    device_ = device.get();
    std::vector<std::unique_ptr<runtime::hal::Device>> devices;
    devices.push_back(std::move(device));
    EngineOptions options;
    options.sessions.domain_secret = "secret";
    engine_ = std::make_unique<Engine>(options, std::move(devices), InProcess(Writes), nullptr);
  }

  // Runs the program: what it was given to write to, and the handle of its result.
  struct Run {
    uint64_t handle = 0;
    char* result = nullptr;
    char* arena = nullptr;
  };
  Run RunOf(const SessionPtr& caller) {
    const v1::Graph graph = GraphOf(1);
    ExecuteRequest request;
    request.graph = &graph;
    request.caller = caller;
    Control control;
    control.account = caller == nullptr ? nullptr : caller->account();
    Run run;
    absl::Notification done;
    engine_->Execute(std::move(request), control, [&](absl::StatusOr<ExecuteResult> result) {
      EXPECT_TRUE(result.ok()) << result.status();
      if (result.ok()) run.handle = result->results[0].handle;
      done.Notify();
    });
    done.WaitForNotification();
    const std::vector<runtime::null::Launch> launches = device_->TakeLaunches();
    EXPECT_EQ(launches.size(), 1u);
    run.result = static_cast<char*>(launches[0].buffers[0]);
    run.arena = static_cast<char*>(launches[0].buffers[1]);
    return run;
  }

  // As requests of several callers that are one run; what they bring is a secret.
  void RunTogether(const SessionPtr& first, MemoryDomain domain) {
    const v1::Graph graph = GraphOf(kTakes);
    const std::string secrets(kBytes, kSecret);
    const std::vector<int64_t> shape = {kBytes};
    ExecuteRequest request;
    request.graph = &graph;
    request.caller = first;
    request.of_several = true;
    request.arguments.push_back({0, TensorView{v1::UINT8, shape, secrets}});
    Control control;
    control.account = first->account();
    control.domain = domain;
    absl::Notification done;
    engine_->Execute(std::move(request), control, [&](absl::StatusOr<ExecuteResult> result) {
      EXPECT_TRUE(result.ok()) << result.status();
      done.Notify();
    });
    done.WaitForNotification();
    EXPECT_EQ(device_->TakeLaunches().size(), 1u);
  }

  void LeaveSecrets(const SessionPtr& caller) {
    const Run run = RunOf(caller);
    std::memset(run.result, kSecret, kBytes);
    std::memset(run.arena, kSecret, kBytes);
    EXPECT_TRUE(engine_->buffers().Free({run.handle}, caller.get()).ok());
  }
  static int64_t SecretsIn(const char* memory) { return std::count(memory, memory + kBytes, kSecret); }

  runtime::null::Device* device_ = nullptr;
};

TEST_F(LeftoversTest, AnotherTenantFindsNothing) {
  LeaveSecrets(Home("a"));
  const Run run = RunOf(Home("b"));
  EXPECT_EQ(SecretsIn(run.result), 0);
  EXPECT_EQ(SecretsIn(run.arena), 0);
  // Nor does whoever comes after it find what it did not write.
  LeaveSecrets(Home("b"));
  const Run again = RunOf(Home("a"));
  EXPECT_EQ(SecretsIn(again.result), 0);
  EXPECT_EQ(SecretsIn(again.arena), 0);
}

TEST_F(LeftoversTest, SessionsOfCallersThatAreNotKnownFindNothingOfEachOther) {
  const SessionPtr one = std::make_shared<Session>(), other = std::make_shared<Session>();
  for (const auto& [left, got] :
       {std::pair(one, other), std::pair(other, SessionPtr()), std::pair(SessionPtr(), one)}) {
    LeaveSecrets(left);
    const Run run = RunOf(got);
    EXPECT_EQ(SecretsIn(run.result), 0);
    EXPECT_EQ(SecretsIn(run.arena), 0);
  }
}

TEST_F(LeftoversTest, WhatSeveralCallersBroughtIsFoundByNoneOfThem) {
  const SessionPtr first = Home("a");
  RunTogether(first, MemoryDomain::kNobody);
  EXPECT_EQ(SecretsIn(RunOf(first).result), 0);
}

TEST_F(LeftoversTest, SessionsOfATenantAreOneDomain) {
  const TrustDomain a = DomainOf("secret", "a"), b = DomainOf("secret", "b");
  EXPECT_EQ(Session("a", a).memory_domain(), Session("a", a).memory_domain());
  EXPECT_NE(Session("a", a).memory_domain(), Session("b", b).memory_domain());
  EXPECT_NE(Session().memory_domain(), Session().memory_domain());
  EXPECT_GE(Session().memory_domain(), MemoryDomain::kFirst);
  EXPECT_EQ(MemoryDomainOf(nullptr), MemoryDomain::kWithoutSession);
}

}  // namespace
}  // namespace kiln::server
