// What the server makes of a tenant's weights for kernels to read, and of arguments that come by value: where that memory
// goes when the weights are freed, no other tenant finds them. The device computes nothing, so the bytes are as they were
// handed over, and the test writes what a kernel would.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr char kSecret = '\xa5';

// A program of one parameter, what is prepared of it, and a result, of so many bytes each.
absl::StatusOr<CompiledProgram> ReadsPrepared(const v1::Graph&, const v1::Target& target, const compiler::Options&,
                                              compiler::CompileObserver*) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  // The same for both, as this device knows of a kernel's operands by the steps alone.
  v1::Kernel& kernel = *executable.add_kernels();
  kernel.set_symbol("k");
  kernel.set_iterations(1);
  v1::Signature::Parameter& parameter = *executable.mutable_signature()->add_parameters();
  parameter.set_slot(0);
  parameter.set_dtype(v1::UINT8);
  parameter.add_shape(kBytes);
  parameter.set_bytes(kBytes);
  v1::Signature::Result& result = *executable.mutable_signature()->add_results();
  result.set_dtype(v1::UINT8);
  result.add_shape(kBytes);
  result.set_bytes(kBytes);
  v1::Preparation& made = *executable.add_preparations();
  made.set_bytes(kBytes);
  made.set_key(std::string(32, 'k'));
  made.mutable_step()->add_operands()->set_space(v1::Operand::PARAMETER);
  v1::Operand& prepared = *made.mutable_step()->add_operands();
  prepared.set_space(v1::Operand::PREPARED);
  prepared.set_written(true);
  v1::Step& step = *executable.add_steps();
  step.add_operands()->set_space(v1::Operand::PREPARED);
  v1::Operand& written = *step.add_operands();
  written.set_space(v1::Operand::RESULT);
  written.set_written(true);
  return executable;
}

class WeightsLeftovers : public ::testing::Test, protected EngineWithTenants {
 protected:
  WeightsLeftovers() {
    auto device = *runtime::null::CreateDevice({.name = "NULL:0", .memory_limit_bytes = kMemory});
    device_ = device.get();
    std::vector<std::unique_ptr<runtime::hal::Device>> devices;
    devices.push_back(std::move(device));
    EngineOptions options;
    options.sessions.domain_secret = "secret";
    engine_ = std::make_unique<Engine>(options, std::move(devices), InProcess(ReadsPrepared), nullptr);
  }

  // One run of a tenant's: what its kernels were given, and the handle of its result.
  struct Run {
    uint64_t handle = 0;
    char *argument = nullptr, *prepared = nullptr, *result = nullptr;
  };
  Run RunOf(const std::string& tenant, decltype(Argument::value) weights) {
    // What comes by value is gone after the run, and what was made of it.
    const bool stays = std::holds_alternative<BufferAddress>(weights);
    const v1::Graph graph = GraphOf(1);
    ExecuteRequest request;
    request.graph = &graph;
    request.caller = Home(tenant);
    request.arguments.push_back({0, std::move(weights)});
    Control control;
    control.account = &AccountOf(tenant);
    Run run;
    absl::Notification done;
    engine_->Execute(std::move(request), control, [&](absl::StatusOr<ExecuteResult> result) {
      EXPECT_TRUE(result.ok()) << result.status();
      if (result.ok()) run.handle = result->results[0].handle;
      done.Notify();
    });
    done.WaitForNotification();
    const std::vector<runtime::null::Launch> launches = device_->TakeLaunches();
    EXPECT_TRUE(launches.size() == 1 || launches.size() == 2) << launches.size();
    if (launches.size() == 2 && stays) {
      run.argument = static_cast<char*>(launches[0].buffers[0]);
      auto* const made = static_cast<char*>(launches[0].buffers[1]);
      EXPECT_EQ(Secrets(made), 0) << "what is prepared is made in memory of another's";
      std::memset(made, kSecret, kBytes);
      ++prepared_;
    }
    if (stays) run.prepared = static_cast<char*>(launches.back().buffers[0]);
    run.result = static_cast<char*>(launches.back().buffers[1]);
    return run;
  }
  static int64_t Secrets(const char* memory) { return std::count(memory, memory + kBytes, kSecret); }

  runtime::null::Device* device_ = nullptr;
  int prepared_ = 0;
};

TEST_F(WeightsLeftovers, WhatWasPreparedIsFoundByNobody) {
  // More than one, so that whatever the next one gets was somebody's.
  std::vector<uint64_t> weights;
  for (int i = 0; i < 4; ++i) {
    weights.push_back(*Allocate("a", kBytes));
    const Run run = RunOf("a", BufferAddress{weights.back(), 0});
    ASSERT_NE(run.prepared, nullptr);
    EXPECT_EQ(Secrets(run.prepared), static_cast<int64_t>(kBytes));
    EXPECT_TRUE(Free("a", run.handle).ok());
  }
  // It stays with the weights, and goes with them.
  EXPECT_EQ(prepared_, 4);
  RunOf("a", BufferAddress{weights.back(), 0});
  EXPECT_EQ(prepared_, 4);
  for (const uint64_t handle : weights) ASSERT_TRUE(Free("a", handle).ok());
  // Neither as a result, nor as an argument's memory, nor as what is prepared for another; nor for its own tenant, as
  // weights may be somebody else's (those of a served model).
  for (const char* tenant : {"b", "a"}) {
    const uint64_t own = *Allocate(tenant, kBytes);
    const Run run = RunOf(tenant, BufferAddress{own, 0});
    EXPECT_EQ(Secrets(run.argument), 0) << tenant;
    EXPECT_EQ(Secrets(run.result), 0) << tenant;
  }
}

TEST_F(WeightsLeftovers, WhatCameByValueIsFoundByNoOther) {
  const std::string secret(kBytes, kSecret);
  const std::vector<int64_t> shape = {kBytes};
  for (int i = 0; i < 4; ++i) {
    const Run run = RunOf("a", TensorView{v1::UINT8, shape, secret});
    std::memset(run.result, kSecret, kBytes);
    EXPECT_TRUE(Free("a", run.handle).ok());
  }
  for (int i = 0; i < 4; ++i) {
    const uint64_t own = *Allocate("b", kBytes);
    const Run run = RunOf("b", BufferAddress{own, 0});
    EXPECT_EQ(Secrets(run.argument), 0);
    EXPECT_EQ(Secrets(run.result), 0);
  }
}

}  // namespace
}  // namespace kiln::server
