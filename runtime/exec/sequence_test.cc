#include "runtime/exec/sequence.h"

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "base/error.h"
#include "gtest/gtest.h"
#include "runtime/drivers/cpu/device.h"
#include "runtime/drivers/null/device.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/load.h"
#include "runtime/testing/programs.h"

namespace kiln::runtime {
namespace {

using hal::BufferSlice;
using testing::Floats;
using testing::ReadFloats;

void AddParameter(v1::Executable& executable, uint32_t slot, int64_t n, bool written) {
  v1::Signature::Parameter& parameter = *executable.mutable_signature()->add_parameters();
  parameter.set_slot(slot);
  parameter.set_dtype(v1::FLOAT32);
  parameter.add_shape(n);
  parameter.set_bytes(n * sizeof(float));
  parameter.set_written(written);
}

void AddOperand(v1::Step& step, v1::Operand::Space space, uint32_t index, bool written) {
  v1::Operand& operand = *step.add_operands();
  operand.set_space(space);
  operand.set_index(index);
  operand.set_written(written);
}

// Slot 0 = slot 1 + slot 2, `n` floats each.
v1::Executable AddInto(int64_t n, const v1::Target& target) {
  v1::Executable executable;
  *executable.mutable_target() = target;
  executable.set_object(testing::KernelsObject());
  v1::Kernel& kernel = *executable.add_kernels();
  kernel.set_symbol("add");
  kernel.set_iterations(n);
  kernel.set_grain(n);
  v1::Step& step = *executable.add_steps();
  for (uint32_t slot = 0; slot < 3; ++slot) {
    AddParameter(executable, slot, n, slot == 0);
    AddOperand(step, v1::Operand::PARAMETER, slot, slot == 0);
  }
  return executable;
}

// The same for the first `rows` rows of 2 floats, where `rows`, 1 to 4, is the variable in
// slot 9; all of them are added, on a device that computes nothing.
v1::Executable AddRows(const v1::Target& target) {
  v1::Executable executable = AddInto(8, target);
  executable.mutable_kernels(0)->set_iterations(1);
  v1::Signature& signature = *executable.mutable_signature();
  v1::Signature::Variable& variable = *signature.add_variables();
  variable.set_slot(9);
  variable.set_name("rows");
  variable.set_min_value(1);
  variable.set_max_value(4);
  for (v1::Signature::Parameter& parameter : *signature.mutable_parameters()) {
    parameter.clear_shape();
    parameter.add_shape(4);
    parameter.add_shape(2);
    auto& symbolic = *parameter.add_symbolic();
    symbolic.set_axis(0);
    v1::SizeExpr::Token& token = *symbolic.mutable_size()->add_token();
    token.set_op(v1::SizeExpr::VARIABLE);
    token.set_value(0);
  }
  return executable;
}

class SequenceTest : public ::testing::Test {
 protected:
  std::shared_ptr<LoadedExecutable> LoadOrDie(const v1::Executable& executable, hal::Device& device) {
    auto program = Load(executable, device);
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  }
  std::shared_ptr<LoadedExecutable> LoadOrDie(const v1::Executable& executable) {
    return LoadOrDie(executable, *device_);
  }

  absl::Status Run(std::shared_ptr<const Sequence> sequence, const std::vector<BufferSlice>& buffers,
                   const std::vector<int64_t>& integers = {}, const hal::LaunchControl& control = {}) {
    absl::Status status;
    absl::Notification done;
    RunOptions options;
    options.control = control;
    options.variables = integers;
    executor_.Run(std::move(sequence), buffers, options, [&](absl::StatusOr<RunResult> result) {
      status = result.status();
      if (result.ok()) {
        EXPECT_TRUE(result->results.empty());
      }
      done.Notify();
    });
    done.WaitForNotification();
    return status;
  }

  void Refused(const absl::Status& status, v1::ErrorCode code, const std::string& field) {
    const auto detail = DetailOf(status);
    ASSERT_TRUE(detail.has_value()) << status;
    EXPECT_EQ(v1::ErrorCode_Name(detail->code()), v1::ErrorCode_Name(code)) << status;
    EXPECT_EQ(detail->field(), field) << status;
  }

  std::unique_ptr<hal::Device> device_ = *cpu::CreateDevice({.threads = 2});
  std::unique_ptr<hal::Device> null_ = *null::CreateDevice({});
  Executor executor_;
};

TEST_F(SequenceTest, EachStepSeesWhatThoseBeforeItWrote) {
  const auto add = LoadOrDie(AddInto(2, device_->target()));
  const auto twice = LoadOrDie(testing::DoubleProgram(2, device_->target()));
  // In buffer 0: [a, b, c]; c = a + b; c *= 2; a = c + buffer 1.
  const auto sequence = Sequence::Make(
      device_.get(),
      {{add, {{0, 16}, {0, 0}, {0, 8}}, {}}, {twice, {{0, 16}}, {}}, {add, {{0, 0}, {0, 16}, {1, 4}}, {}}});
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  ASSERT_EQ((*sequence)->buffers().size(), 2u);
  EXPECT_EQ((*sequence)->buffers()[0].bytes, 24u);
  EXPECT_TRUE((*sequence)->buffers()[0].written);
  EXPECT_EQ((*sequence)->buffers()[1].bytes, 12u);
  EXPECT_FALSE((*sequence)->buffers()[1].written);
  EXPECT_EQ((*sequence)->launches().size(), 3u);
  const BufferSlice memory = Floats(*device_, {1, 2, 10, 20, 0, 0});
  const BufferSlice more = Floats(*device_, {7, 100, 200});
  ASSERT_TRUE(Run(*sequence, {memory, more}).ok());
  EXPECT_EQ(ReadFloats(memory), std::vector<float>({122, 244, 10, 20, 22, 44}));
  // Other memory, from an offset on.
  const BufferSlice other = Floats(*device_, {-1, 0, 1, 2, 3, 4, 5});
  ASSERT_TRUE(Run(*sequence, {{other.buffer, 4, 24}, more}).ok());
  EXPECT_EQ(ReadFloats(other), std::vector<float>({-1, 104, 208, 2, 3, 4, 8}));
  EXPECT_EQ(ReadFloats(more), std::vector<float>({7, 100, 200}));
}

TEST_F(SequenceTest, OneMemoryMayBeTwoBuffersWhereNoStepMinds) {
  const auto add = LoadOrDie(AddInto(2, device_->target()));
  const auto sequence =
      Sequence::Make(device_.get(), {{add, {{0, 0}, {1, 0}, {1, 0}}, {}}, {add, {{2, 0}, {0, 0}, {1, 0}}, {}}});
  ASSERT_TRUE(sequence.ok()) << sequence.status();
  const BufferSlice memory = Floats(*device_, {1, 2, 0, 0, 0, 0});
  const auto at = [&](uint64_t offset) { return BufferSlice{memory.buffer, offset, 24 - offset}; };
  ASSERT_TRUE(Run(*sequence, {at(8), at(0), at(16)}).ok());
  EXPECT_EQ(ReadFloats(memory), std::vector<float>({1, 2, 2, 4, 3, 6}));
  // Buffer 2 is written in step 1 where buffer 1 is read; in step 0 it is nobody.
  Refused(Run(*sequence, {at(8), at(0), at(4)}), v1::BAD_ARGUMENT, "steps[1]");
  EXPECT_EQ(ReadFloats(memory), std::vector<float>({1, 2, 2, 4, 3, 6})) << "nothing has run";
}

TEST_F(SequenceTest, WhatCannotBeIsRefusedWhenItIsMade) {
  const auto add = LoadOrDie(AddInto(2, device_->target()));
  const auto fresh = LoadOrDie(testing::AddProgram(2, device_->target()));
  const auto elsewhere = LoadOrDie(AddInto(2, null_->target()), *null_);
  const auto make = [&](std::vector<SequenceStep> steps) { return Sequence::Make(device_.get(), steps).status(); };
  const SequenceStep good = {add, {{0, 0}, {1, 0}, {2, 0}}, {}};
  EXPECT_EQ(DetailOf(make({}))->code(), v1::BAD_ARGUMENT);
  Refused(make({good, {fresh, {{0, 0}, {1, 0}}, {}}}), v1::BAD_ARGUMENT, "steps[1]");
  Refused(make({good, {elsewhere, {{0, 0}, {1, 0}, {2, 0}}, {}}}), v1::BUFFER_DEVICE_MISMATCH, "steps[1]");
  Refused(make({{add, {{0, 0}, {0, 4}, {1, 0}}, {}}}), v1::BAD_ARGUMENT, "steps[0]");
  Refused(make({{add, {{0, 0}, {0, 8}, {0, 4}}, {}}}), v1::BAD_ARGUMENT, "steps[0]");
  EXPECT_TRUE(make({{add, {{0, 0}, {0, 8}, {0, 12}}, {}}}).ok()) << "what is only read may be shared";
  Refused(make({{add, {{0, 2}, {1, 0}, {2, 0}}, {}}}), v1::BUFFER_DTYPE_MISMATCH, "steps[0]");
  Refused(make({{add, {{0, ~uint64_t{3}}, {1, 0}, {2, 0}}, {}}}), v1::OUT_OF_BOUNDS, "steps[0]");
  Refused(make({{add, {{0, 0}, {~uint32_t{0}, 0}, {2, 0}}, {}}}), v1::GRAPH_TOO_LARGE, "steps[0]");
  EXPECT_EQ(DetailOf(make(std::vector<SequenceStep>(70'000, good)))->limit(), "steps");
}

TEST_F(SequenceTest, BuffersAreCheckedBeforeAnythingRuns) {
  const auto add = LoadOrDie(AddInto(2, device_->target()));
  const auto sequence = *Sequence::Make(device_.get(), {{add, {{0, 0}, {1, 8}, {1, 0}}, {}}});
  const BufferSlice out = Floats(*device_, {0, 0});
  const BufferSlice in = Floats(*device_, {1, 2, 3, 4});
  const BufferSlice foreign = BufferSlice::Whole(*null_->allocator().Allocate(16, hal::MemoryUse::kClient));
  Refused(Run(sequence, {out}), v1::MISSING_ARGUMENT, "");
  Refused(Run(sequence, {out, in, in}), v1::UNKNOWN_ARGUMENT, "");
  Refused(Run(sequence, {out, in}, {1}), v1::UNKNOWN_ARGUMENT, "");
  Refused(Run(sequence, {out, BufferSlice()}), v1::MISSING_ARGUMENT, "buffers[1]");
  Refused(Run(sequence, {out, out}), v1::BUFFER_SIZE_MISMATCH, "buffers[1]");
  Refused(Run(sequence, {out, {in.buffer, 8, 16}}), v1::OUT_OF_BOUNDS, "buffers[1]");
  Refused(Run(sequence, {{in.buffer, 2, 8}, in}), v1::BUFFER_DTYPE_MISMATCH, "buffers[0]");
  Refused(Run(sequence, {out, foreign}), v1::BUFFER_DEVICE_MISMATCH, "buffers[1]");
  Refused(Run(sequence, {in, in}), v1::BAD_ARGUMENT, "steps[0]");
  EXPECT_EQ(ReadFloats(out), std::vector<float>({0, 0}));
  ASSERT_TRUE(Run(sequence, {out, in}).ok());
  EXPECT_EQ(ReadFloats(out), std::vector<float>({4, 6}));
}

TEST_F(SequenceTest, IntegersDecideSizes) {
  const auto rows = LoadOrDie(AddRows(null_->target()), *null_);
  const SequenceStep numbered = {rows, {{0, 0}, {1, 0}, {1, 0}}, {{0, 0}}};
  EXPECT_EQ(
      DetailOf(Sequence::Make(null_.get(), {{rows, {{0, 0}, {1, 0}, {1, 0}}, {{std::nullopt, 5}}}}).status())->slot(),
      9u);
  const auto fixed = *Sequence::Make(null_.get(), {{rows, {{0, 0}, {1, 0}, {1, 0}}, {{std::nullopt, 2}}}});
  EXPECT_EQ(fixed->buffers()[0].bytes, 16u);
  const auto sequence = *Sequence::Make(null_.get(), {numbered});
  EXPECT_EQ(sequence->integers(), 1u);
  EXPECT_EQ(sequence->buffers()[0].bytes, 32u);
  const auto memory = *null_->allocator().Allocate(48, hal::MemoryUse::kClient);
  const auto at = [&](uint64_t offset, uint64_t bytes) { return BufferSlice{memory, offset, bytes}; };
  EXPECT_TRUE(Run(sequence, {at(0, 24), at(24, 24)}, {3}).ok());
  EXPECT_TRUE(Run(sequence, {at(0, 48), at(16, 32)}, {2}).ok());
  Refused(Run(sequence, {at(0, 24), at(24, 24)}, {4}), v1::BUFFER_SIZE_MISMATCH, "steps[0]");
  Refused(Run(sequence, {at(0, 48), at(16, 32)}, {3}), v1::BAD_ARGUMENT, "steps[0]");
  Refused(Run(sequence, {at(0, 24), at(24, 24)}, {0}), v1::BAD_ARGUMENT, "steps[0]");
  Refused(Run(sequence, {at(0, 24), at(24, 24)}), v1::MISSING_ARGUMENT, "");

  v1::Executable executable = AddRows(null_->target());
  v1::Signature::Condition& condition = *executable.mutable_signature()->add_conditions();
  condition.set_text("fewer than two rows");
  for (const auto& [op, value] :
       {std::pair(v1::SizeExpr::VARIABLE, 0), {v1::SizeExpr::CONST, -2}, {v1::SizeExpr::ADD, 0}}) {
    v1::SizeExpr::Token& token = *condition.mutable_size()->add_token();
    token.set_op(op);
    token.set_value(value);
  }
  const SequenceStep conditional = {LoadOrDie(executable, *null_), {{0, 0}, {1, 0}, {1, 0}}, {{0, 0}}};
  const auto two = *Sequence::Make(null_.get(), {numbered, conditional});
  Refused(Run(two, {at(0, 24), at(24, 24)}, {1}), v1::OUT_OF_BOUNDS, "steps[1].signature.conditions[0]");
}

// Each replay would look at all of them again.
TEST_F(SequenceTest, WhatIntegersDecideHasALimit) {
  const auto rows = LoadOrDie(AddRows(null_->target()), *null_);
  const std::vector<SequenceStep> steps(40'000, {rows, {{0, 0}, {1, 0}, {1, 0}}, {{0, 0}}});
  EXPECT_EQ(DetailOf(Sequence::Make(null_.get(), steps).status())->limit(), "checks of integers");
}

TEST_F(SequenceTest, AStopTakesEffectBetweenSteps) {
  const auto twice = LoadOrDie(testing::DoubleProgram(1, device_->target()));
  const auto sequence = *Sequence::Make(device_.get(), std::vector<SequenceStep>(3, {twice, {{0, 0}}, {}}));
  const BufferSlice x = Floats(*device_, {1});
  hal::LaunchControl late;
  late.deadline = absl::Now() - absl::Seconds(1);
  EXPECT_EQ(DetailOf(Run(sequence, {x}, {}, late))->code(), v1::DEADLINE_PASSED);
  std::atomic<bool> gone{true};
  EXPECT_EQ(Run(sequence, {x}, {}, {&gone}).code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReadFloats(x), std::vector<float>({1}));
  EXPECT_EQ(sequence->estimate().runs(), 0u);
  gone = false;
  EXPECT_TRUE(Run(sequence, {x}, {}, {&gone}).ok());
  EXPECT_EQ(ReadFloats(x), std::vector<float>({8}));

  // The first step waits until the request has been taken back.
  const auto spin = LoadOrDie(testing::SpinProgram(device_->target()));
  const auto waits = *Sequence::Make(device_.get(), {{spin, {{1, 0}}, {}}, {twice, {{0, 0}}, {}}});
  const auto flag = BufferSlice::Whole(*device_->allocator().Allocate(1, hal::MemoryUse::kClient));
  auto* byte = static_cast<char*>(flag.host_data());
  *byte = 0;
  std::thread canceller([&] {
    gone = true;
    std::atomic_ref<char>(*byte).store(1);
  });
  const absl::Status status = Run(waits, {x, flag}, {}, {&gone});
  canceller.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(ReadFloats(x), std::vector<float>({8}));
}

TEST_F(SequenceTest, HoldsItsPrograms) {
  auto twice = LoadOrDie(testing::DoubleProgram(1, device_->target()));
  const std::weak_ptr<LoadedExecutable> seen = twice;
  auto sequence = *Sequence::Make(device_.get(), {{twice, {{0, 0}}, {}}, {twice, {{0, 0}}, {}}});
  EXPECT_GT(sequence->memory_bytes(), twice->memory_bytes());
  EXPECT_LT(sequence->memory_bytes(), 2 * twice->memory_bytes() + 1000);
  twice.reset();
  EXPECT_FALSE(seen.expired());
  const BufferSlice x = Floats(*device_, {3});
  EXPECT_TRUE(Run(sequence, {x}).ok());
  EXPECT_EQ(ReadFloats(x), std::vector<float>({12}));
  sequence.reset();
  ASSERT_TRUE(device_->queue().Drain(absl::InfiniteFuture()).ok());
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace kiln::runtime
