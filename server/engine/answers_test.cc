// What a run has used is free by the time that its caller is answered: who is told may ask for as much at once, and a
// quota that is enough for one such run is enough for one after the other.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "runtime/hal/allocator.h"
#include "server/engine/tenancy_fixture.h"

namespace kiln::server {
namespace {

constexpr uint64_t kBytes = 4096;

// A program that writes what it is given, and has a result; of so many bytes each.
absl::StatusOr<CompiledProgram> Updates(const v1::Graph&, const v1::Target& target, const compiler::Options&,
                                        compiler::CompileObserver*) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  v1::Kernel& kernel = *executable.add_kernels();
  kernel.set_symbol("k");
  kernel.set_iterations(1);
  v1::Signature::Parameter& parameter = *executable.mutable_signature()->add_parameters();
  parameter.set_slot(0);
  parameter.set_dtype(v1::UINT8);
  parameter.add_shape(kBytes);
  parameter.set_bytes(kBytes);
  parameter.set_written(true);
  v1::Signature::Result& result = *executable.mutable_signature()->add_results();
  result.set_dtype(v1::UINT8);
  result.add_shape(kBytes);
  result.set_bytes(kBytes);
  v1::Step& step = *executable.add_steps();
  for (const auto space : {v1::Operand::PARAMETER, v1::Operand::RESULT}) {
    v1::Operand& operand = *step.add_operands();
    operand.set_space(space);
    operand.set_written(true);
  }
  return executable;
}

class AnswersTest : public ::testing::Test, protected EngineWithTenants {
 protected:
  AnswersTest() {
    std::vector<std::unique_ptr<runtime::hal::Device>> devices;
    devices.push_back(*runtime::null::CreateDevice({.name = "NULL:0", .memory_limit_bytes = kMemory}));
    EngineOptions options;
    options.sessions.domain_secret = "secret";
    engine_ = std::make_unique<Engine>(options, std::move(devices), InProcess(Updates), nullptr);
  }

  // Runs the program on memory that only the request has. What the tenant has of the device as it is answered.
  uint64_t HeldAtTheAnswer(absl::StatusCode expected, Control control = {}, std::function<void()> started = [] {}) {
    Account& payer = AccountOf("a");
    runtime::hal::Device* const device = engine_->devices()[0].get();
    auto record = std::make_shared<BufferRecord>();
    record->slice = runtime::hal::BufferSlice::Whole(*runtime::hal::AllocateFor(
        &payer, device->allocator(), kBytes, runtime::hal::MemoryUse::kProgram, MemoryDomain::kNobody));
    record->device = device;
    record->dtype = v1::UINT8;
    record->shape.push_back(kBytes);
    EXPECT_GE(payer.used(Quota::kDeviceBytes), kBytes);
    const v1::Graph graph = GraphOf(1);
    ExecuteRequest request;
    request.graph = &graph;
    request.caller = Home("a");
    request.results_inline = true;
    request.arguments.push_back({0, BufferTable::Record(std::move(record))});
    request.started = [&](const runtime::Program&, const BoundArguments&, uint64_t) { started(); };
    control.account = &payer;
    uint64_t held = 0;
    absl::Notification done;
    engine_->Execute(std::move(request), control, [&](absl::StatusOr<ExecuteResult> result) {
      EXPECT_EQ(result.status().code(), expected) << result.status();
      held = payer.used(Quota::kDeviceBytes);
      done.Notify();
    });
    done.WaitForNotification();
    return held;
  }
};

TEST_F(AnswersTest, ARunThatEndedWellHoldsNothing) {
  EXPECT_EQ(HeldAtTheAnswer(absl::StatusCode::kOk), 0u);
  EXPECT_EQ(HeldAtTheAnswer(absl::StatusCode::kOk), 0u);
}

TEST_F(AnswersTest, NorDoesOneThatIsCalledOff) {
  std::atomic<bool> off{false};
  Control control;
  control.cancelled = &off;
  EXPECT_EQ(HeldAtTheAnswer(absl::StatusCode::kCancelled, control, [&off] { off = true; }), 0u);
}

}  // namespace
}  // namespace kiln::server
