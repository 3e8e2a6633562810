// How a sequence is made: its steps are checked, and linked to one list of launches. Tested by sequence_test.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/exec/sequence.h"
#include "runtime/exec/sequence_step.h"

namespace kiln::runtime {
namespace {

// As kMaxSteps.
constexpr uint32_t kMaxBuffers = 1 << 14;
constexpr uint32_t kMaxIntegers = 1 << 12;
constexpr size_t kMaxOperands = size_t{1} << 20;
constexpr size_t kMaxLaunches = size_t{1} << 18;
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;
// Variables, sizes and conditions that depend on a replay's integers: each is looked at
// before the replay is queued.
constexpr size_t kMaxChecks = size_t{1} << 17;
// Of programs for several devices, all steps together: with symbolic sizes each replay makes them.
constexpr size_t kMaxTasks = size_t{1} << 20;

absl::Status IsNewMemory(size_t result) {
  return MakeError(v1::BAD_ARGUMENT, absl::StrCat("result ", result,
                                                  " is new memory, which a replay does not make: "
                                                  "let the program store it to a parameter"));
}

// Of a program for one device, and of one for several, whose devices are its own.
absl::Status CheckProgram(const LoadedExecutable& program, const hal::Device& device) {
  if (&program.device() != &device) {
    return MakeError(v1::BUFFER_DEVICE_MISMATCH, absl::StrCat("the program is for ", program.device().name(),
                                                              ", and the sequence for ", device.name()));
  }
  for (size_t i = 0; i < program.plan().results.size(); ++i) {
    if (program.plan().results[i].alias == PlanResult::kFresh) return IsNewMemory(i);
  }
  return absl::OkStatus();
}
absl::Status CheckProgram(const Program& program) {
  for (int i = 0; i < program.signature().results_size(); ++i) {
    if (!program.signature().results(i).has_aliases()) return IsNewMemory(static_cast<size_t>(i));
  }
  return absl::OkStatus();
}

// What the program itself must be, and the numbers that the step uses.
absl::Status CheckStep(const SequenceStep& step, const hal::Device& device) {
  KILN_RETURN_IF_ERROR(step.multi != nullptr ? CheckProgram(*step.multi) : CheckProgram(*step.program, device));
  for (const SequenceStep::Memory& memory : step.parameters) {
    if (memory.buffer >= kMaxBuffers) return RecordingTooLarge("buffers", kMaxBuffers, uint64_t{memory.buffer} + 1);
  }
  for (const SequenceStep::Number& number : step.variables) {
    if (number.integer.value_or(0) >= kMaxIntegers) {
      return RecordingTooLarge("integers", kMaxIntegers, uint64_t{*number.integer} + 1);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlaces(const SequenceStep& step) {
  const std::vector<PlanParameter>& plan = TakenBy(step);
  for (size_t i = 0; i < plan.size(); ++i) {
    const uint64_t offset = step.parameters[i].offset;
    if (offset > kMaxBytes || plan[i].bytes > kMaxBytes - offset) {
      return BadSlot(v1::OUT_OF_BOUNDS, plan[i].slot, absl::StrCat("no memory has ", offset, " bytes before it"));
    }
    if (plan[i].bytes != 0 && offset % plan[i].alignment != 0) {
      return BadSlot(v1::BUFFER_DTYPE_MISMATCH, plan[i].slot,
                     absl::StrCat("it begins at byte ", offset, ", which is no multiple of ", plan[i].alignment));
    }
  }
  if (IsNumbered(step)) {
    // With symbolic sizes, what is shared depends on the run.
    return HasSymbolicSizes(step) ? absl::OkStatus() : CheckStepSharing(step, StepValues(step.variables.size()), {});
  }
  const StepValues values = ValuesOf(step, {});
  KILN_RETURN_IF_ERROR(CheckStepVariables(step, values));
  return CheckStepSharing(step, values, {});
}

uint64_t Aligned(uint64_t offset) {
  return (offset + hal::kBufferAlignment - 1) / hal::kBufferAlignment * hal::kBufferAlignment;
}

}  // namespace

absl::StatusOr<std::shared_ptr<Sequence>> Sequence::Make(hal::Device* device, std::vector<SequenceStep> steps) {
  if (steps.empty()) return MakeError(v1::BAD_ARGUMENT, "a recording without steps");
  if (steps.size() > kMaxSteps) return RecordingTooLarge("steps", kMaxSteps, steps.size());
  size_t arguments = 0;
  for (const SequenceStep& step : steps) arguments += step.parameters.size() + step.variables.size();
  if (arguments > kMaxArguments) return RecordingTooLarge("arguments", kMaxArguments, arguments);
  std::shared_ptr<Sequence> sequence(new Sequence(device, std::move(steps)));
  std::vector<SequenceUse> uses;
  for (uint32_t i = 0; i < sequence->steps_.size(); ++i) {
    const SequenceStep& step = sequence->steps_[i];
    absl::Status status = CheckStep(step, *device);
    if (status.ok()) status = CheckPlaces(step);
    if (status.ok()) status = sequence->Need(step, i);
    if (!status.ok()) return AtStep(status, i);
    sequence->Use(step, uses);
    if (step.multi != nullptr) {
      sequence->kernels_ += step.multi->kernels();
      for (hal::Device* other : step.multi->DistinctDevices()) {
        auto& devices = sequence->devices_;
        if (std::find(devices.begin(), devices.end(), other) == devices.end()) devices.push_back(other);
      }
      sequence->parts_.push_back({.step = i});
    } else {
      sequence->Link(step, i);
    }
    if (sequence->operands_.size() > kMaxOperands) {
      return RecordingTooLarge("operands", kMaxOperands, sequence->operands_.size());
    }
    if (sequence->launches_.size() > kMaxLaunches) {
      return RecordingTooLarge("launches", kMaxLaunches, sequence->launches_.size());
    }
    if (sequence->checks_ > kMaxChecks) return RecordingTooLarge("checks of integers", kMaxChecks, sequence->checks_);
    if (sequence->tasks_ > kMaxTasks) return RecordingTooLarge("tasks", kMaxTasks, sequence->tasks_);
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    sequence->buffers_[i].read = uses[i].read();
    sequence->buffers_[i].changed = uses[i].changed();
    sequence->buffers_[i].overwritten = uses[i].overwritten();
  }
  sequence->kernels_ += static_cast<uint32_t>(sequence->launches_.size());
  for (SequencePart& part : sequence->parts_) {
    if (sequence->steps_[part.step].multi != nullptr) continue;
    part.list = device->MakeLaunchList(absl::MakeSpan(sequence->launches_).subspan(part.first_launch, part.launches));
  }
  return sequence;
}

absl::Status Sequence::Need(const SequenceStep& step, uint32_t number) {
  const std::vector<PlanParameter>& plan = TakenBy(step);
  const bool numbered = IsNumbered(step);
  const StepValues values = numbered ? StepValues(step.variables.size()) : ValuesOf(step, {});
  for (size_t i = 0; i < plan.size(); ++i) {
    const auto [buffer, offset] = step.parameters[i];
    if (buffer >= buffers_.size()) buffers_.resize(buffer + 1);
    SequenceBuffer& needed = buffers_[buffer];
    const hal::Device* device = step.multi != nullptr ? &step.multi->device_of_taken(i) : device_;
    if (needed.device != nullptr && needed.device != device) {
      return BadSlot(
          v1::BUFFER_DEVICE_MISMATCH, plan[i].slot,
          absl::StrCat("it is on ", device->name(), ", and buffer ", buffer, " is on ", needed.device->name()));
    }
    needed.device = device;
    const bool fixed = !numbered || !plan[i].shape.is_symbolic();
    const uint64_t end = offset + (fixed ? plan[i].shape.BytesAt(values) : plan[i].bytes);
    needed.bytes = std::max(needed.bytes, end);
    if (fixed) needed.fixed_bytes = std::max(needed.fixed_bytes, end);
    needed.alignment = std::max(needed.alignment, plan[i].alignment);
    needed.written |= plan[i].written;
  }
  for (const SequenceStep::Number& variable : step.variables) {
    if (variable.integer.has_value()) integers_ = std::max(integers_, *variable.integer + 1);
  }
  if (numbered) {
    numbered_.push_back(number);
    const Plan* const alone = step.multi == nullptr ? &step.program->plan() : nullptr;
    checks_ +=
        plan.size() + (alone == nullptr ? step.multi->checks() : alone->variables.size() + alone->conditions.size());
  }
  if (step.multi != nullptr) {
    tasks_ += step.multi->tasks().size();
    return absl::OkStatus();
  }
  uint64_t arena_bytes = step.program->plan().arena_bytes;
  for (const PlanPreparation& preparation : step.program->plan().preparations)
    arena_bytes = Aligned(arena_bytes) + preparation.bytes;
  arena_bytes_ = std::max(arena_bytes_, arena_bytes);
  estimate_.Guess(estimate_.ns() + step.program->estimate_ns(),
                  estimate_.floor_ns() + step.program->least_estimate_ns());
  return absl::OkStatus();
}

// What a step has by several names it never writes (CheckStepSharing), so the order of its
// parameters does not matter.
void Sequence::Use(const SequenceStep& step, std::vector<SequenceUse>& uses) const {
  uses.resize(buffers_.size());
  const std::vector<PlanParameter>& plan = TakenBy(step);
  for (size_t i = 0; i < plan.size(); ++i) {
    const auto [buffer, offset] = step.parameters[i];
    const SequenceBytes bytes = {offset, offset + plan[i].bytes};
    const bool overwritten = plan[i].overwritten && !plan[i].shape.is_symbolic();
    if (plan[i].written) uses[buffer].Changes(bytes);
    overwritten ? uses[buffer].Overwrites(bytes) : uses[buffer].Reads(bytes);
  }
}

void Sequence::Link(const SequenceStep& step, uint32_t number) {
  using Space = SequenceOperand::Space;
  const Plan& plan = step.program->plan();
  const auto fixed = [](uint64_t value) { return SequenceOperand{Space::kFixed, 0, value}; };
  const auto memory = [&step](uint32_t parameter) {
    return SequenceOperand{Space::kBuffer, step.parameters[parameter].buffer, step.parameters[parameter].offset};
  };
  const auto first = static_cast<uint32_t>(operands_.size());
  if (parts_.empty() || steps_[parts_.back().step].multi != nullptr) {
    parts_.push_back({.step = number, .first_launch = static_cast<uint32_t>(launches_.size()), .first_operand = first});
  }
  const auto launch = [&](const PlanStep& launched) {
    launches_.push_back({step.program->module_.get(), launched.kernel, first + launched.first_operand});
    steps_of_.push_back(number);
  };
  // What is made of weights is made anew, behind the program's own scratch: an earlier step may have written them.
  std::vector<uint64_t> prepared;
  uint64_t end = plan.arena_bytes;
  for (const PlanPreparation& preparation : plan.preparations) {
    prepared.push_back(Aligned(end));
    end = prepared.back() + preparation.bytes;
    launch(preparation.step);
  }
  for (const PlanStep& launched : plan.steps) launch(launched);
  for (const PlanOperand& operand : plan.operands) {
    switch (operand.space) {
      case PlanOperand::Space::kParameter: operands_.push_back(memory(operand.index)); break;
      case PlanOperand::Space::kResult: operands_.push_back(memory(plan.results[operand.index].alias)); break;
      case PlanOperand::Space::kArena: operands_.push_back({Space::kArena, 0, operand.offset}); break;
      case PlanOperand::Space::kPrepared: operands_.push_back({Space::kArena, 0, prepared[operand.index]}); break;
      case PlanOperand::Space::kConstants:
        operands_.push_back(
            fixed(reinterpret_cast<uintptr_t>(step.program->constants_->device_data()) + operand.offset));
        break;
      case PlanOperand::Space::kVariable: {
        const SequenceStep::Number& value = step.variables[operand.index];
        operands_.push_back(value.integer.has_value() ? SequenceOperand{Space::kInteger, *value.integer, 0}
                                                      : fixed(static_cast<uint64_t>(value.constant)));
        break;
      }
    }
  }
  SequencePart& part = parts_.back();
  part.launches = static_cast<uint32_t>(launches_.size()) - part.first_launch;
  part.operands = static_cast<uint32_t>(operands_.size()) - part.first_operand;
}

}  // namespace kiln::runtime
