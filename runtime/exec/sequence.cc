#include "runtime/exec/sequence.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/plan/sharing.h"

namespace kiln::runtime {
namespace {

using hal::BufferSlice;
using Values = absl::InlinedVector<int64_t, 4>;

// As kMaxSteps.
constexpr uint32_t kMaxBuffers = 1 << 14;
constexpr uint32_t kMaxIntegers = 1 << 12;
constexpr size_t kMaxOperands = size_t{1} << 20;
constexpr size_t kMaxLaunches = size_t{1} << 18;
constexpr uint64_t kMaxBytes = uint64_t{1} << 62;
// Variables, sizes and conditions that depend on a replay's integers: each is looked at
// before the replay is queued.
constexpr size_t kMaxChecks = size_t{1} << 17;

absl::Status BadSlot(v1::ErrorCode code, uint32_t slot, absl::string_view why) {
  return SlotError(code, slot, absl::StrCat("slot ", slot, ": ", why));
}

absl::Status BadBuffer(v1::ErrorCode code, size_t number, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(absl::StrCat("buffers[", number, "]"));
  return MakeError(std::move(detail), absl::StrCat("buffer ", number, ": ", why));
}

Values ValuesOf(const SequenceStep& step, absl::Span<const int64_t> integers) {
  Values values;
  for (const SequenceStep::Number& number : step.variables) {
    values.push_back(number.integer.has_value() ? integers[*number.integer] : number.constant);
  }
  return values;
}

bool IsNumbered(const SequenceStep& step) {
  return std::any_of(step.variables.begin(), step.variables.end(),
                     [](const SequenceStep::Number& number) { return number.integer.has_value(); });
}

bool HasSymbolicSizes(const SequenceStep& step) {
  const std::vector<PlanParameter>& plan = step.program->plan().parameters;
  return std::any_of(plan.begin(), plan.end(), [](const PlanParameter& p) { return p.shape.is_symbolic(); });
}

// Whether a step writes no bytes that it also has under another name, in the memory
// of these buffers or, without any, in buffers that are strangers to each other.
absl::Status CheckStepSharing(const SequenceStep& step, const Values& values, absl::Span<const BufferSlice> buffers) {
  const std::vector<PlanParameter>& plan = step.program->plan().parameters;
  Regions regions;
  for (size_t i = 0; i < plan.size(); ++i) {
    const auto [number, offset] = step.parameters[i];
    Region region{number, offset, 0, plan[i].written, plan[i].slot};
    if (!buffers.empty()) {
      region.memory = reinterpret_cast<uintptr_t>(buffers[number].buffer.get());
      region.begin += buffers[number].offset;
    }
    region.end = region.begin + plan[i].shape.BytesAt(values);
    regions.push_back(region);
  }
  const auto clash = FindClash(regions);
  if (!clash.has_value()) return absl::OkStatus();
  return BadSlot(v1::BAD_ARGUMENT, clash->first,
                 absl::StrCat("the program writes it, and it shares bytes with slot ", clash->second));
}

// What the program itself must be, and the numbers that the step uses.
absl::Status CheckProgram(const SequenceStep& step, const hal::Device& device) {
  const Plan& plan = step.program->plan();
  if (&step.program->device() != &device) {
    return MakeError(v1::BUFFER_DEVICE_MISMATCH, absl::StrCat("the program is for ", step.program->device().name(),
                                                              ", and the sequence for ", device.name()));
  }
  for (size_t i = 0; i < plan.results.size(); ++i) {
    if (plan.results[i].alias != PlanResult::kFresh) continue;
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("result ", i,
                                                    " is new memory, which a replay does not make: "
                                                    "let the program store it to a parameter"));
  }
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
  const std::vector<PlanParameter>& plan = step.program->plan().parameters;
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
    return HasSymbolicSizes(step) ? absl::OkStatus() : CheckStepSharing(step, Values(step.variables.size()), {});
  }
  const Values values = ValuesOf(step, {});
  const Plan& all = step.program->plan();
  KILN_RETURN_IF_ERROR(CheckVariables(all.variables, all.conditions, values));
  return CheckStepSharing(step, values, {});
}

uint64_t Aligned(uint64_t offset) {
  return (offset + hal::kBufferAlignment - 1) / hal::kBufferAlignment * hal::kBufferAlignment;
}

}  // namespace

absl::Status RecordingTooLarge(absl::string_view limit, uint64_t limit_value, uint64_t used) {
  return TooLarge(limit, limit_value, used,
                  absl::StrCat("a recording of ", used, " ", limit, "; the most is ", limit_value));
}

absl::Status AtStep(const absl::Status& status, size_t step) {
  absl::Status named = Annotate(status, absl::StrCat("step ", step));
  auto detail = DetailOf(named);
  if (!detail.has_value()) return named;
  detail->set_field(absl::StrCat("steps[", step, "]", detail->field().empty() ? "" : ".", detail->field()));
  return MakeError(*std::move(detail), named.message());
}

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
    absl::Status status = CheckProgram(step, *device);
    if (status.ok()) status = CheckPlaces(step);
    if (!status.ok()) return AtStep(status, i);
    sequence->Need(step, i);
    sequence->Use(step, uses);
    sequence->Link(step, i);
    if (sequence->operands_.size() > kMaxOperands) {
      return RecordingTooLarge("operands", kMaxOperands, sequence->operands_.size());
    }
    if (sequence->launches_.size() > kMaxLaunches) {
      return RecordingTooLarge("launches", kMaxLaunches, sequence->launches_.size());
    }
    if (sequence->checks_ > kMaxChecks) return RecordingTooLarge("checks of integers", kMaxChecks, sequence->checks_);
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    sequence->buffers_[i].read = uses[i].read();
    sequence->buffers_[i].changed = uses[i].changed();
    sequence->buffers_[i].overwritten = uses[i].overwritten();
  }
  sequence->launch_list_ = device->MakeLaunchList(sequence->launches_);
  return sequence;
}

void Sequence::Need(const SequenceStep& step, uint32_t number) {
  const std::vector<PlanParameter>& plan = step.program->plan().parameters;
  const bool numbered = IsNumbered(step);
  const Values values = numbered ? Values(step.variables.size()) : ValuesOf(step, {});
  for (size_t i = 0; i < plan.size(); ++i) {
    const auto [buffer, offset] = step.parameters[i];
    if (buffer >= buffers_.size()) buffers_.resize(buffer + 1);
    SequenceBuffer& needed = buffers_[buffer];
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
    const Plan& whole = step.program->plan();
    checks_ += whole.variables.size() + whole.conditions.size() + whole.parameters.size();
  }
  uint64_t arena_bytes = step.program->plan().arena_bytes;
  for (const PlanPreparation& preparation : step.program->plan().preparations)
    arena_bytes = Aligned(arena_bytes) + preparation.bytes;
  arena_bytes_ = std::max(arena_bytes_, arena_bytes);
  estimate_.Guess(estimate_.ns() + step.program->estimate_ns());
}

// What a step has by several names it never writes (CheckStepSharing), so the order of its
// parameters does not matter.
void Sequence::Use(const SequenceStep& step, std::vector<SequenceUse>& uses) const {
  uses.resize(buffers_.size());
  const std::vector<PlanParameter>& plan = step.program->plan().parameters;
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
}

absl::Status Sequence::CheckCounts(size_t buffers, size_t integers) const {
  if (buffers == buffers_.size() && integers == integers_) return absl::OkStatus();
  const bool few = buffers < buffers_.size() || integers < integers_;
  return MakeError(few ? v1::MISSING_ARGUMENT : v1::UNKNOWN_ARGUMENT,
                   absl::StrCat("the recording takes ", buffers_.size(), " buffers and ", integers_,
                                " integers; there are ", buffers, " and ", integers));
}

absl::Status Sequence::Check(absl::Span<const BufferSlice> buffers, absl::Span<const int64_t> integers) const {
  KILN_RETURN_IF_ERROR(CheckCounts(buffers.size(), integers.size()));
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferSlice& slice = buffers[i];
    const SequenceBuffer& needed = buffers_[i];
    if (slice.buffer == nullptr) return BadBuffer(v1::MISSING_ARGUMENT, i, "there is no buffer");
    if (absl::Status status = hal::CheckSlice(slice); !status.ok()) {
      return BadBuffer(v1::OUT_OF_BOUNDS, i, status.message());
    }
    if (slice.buffer->device() != device_) {
      return BadBuffer(
          v1::BUFFER_DEVICE_MISMATCH, i,
          absl::StrCat("it is on ", slice.buffer->device()->name(), ", and the recording for ", device_->name()));
    }
    if (slice.bytes < needed.fixed_bytes) {
      return BadBuffer(v1::BUFFER_SIZE_MISMATCH, i,
                       absl::StrCat("the recording takes ", needed.fixed_bytes, " bytes of it; it has ", slice.bytes));
    }
    if (needed.bytes != 0 && slice.offset % needed.alignment != 0) {
      return BadBuffer(
          v1::BUFFER_DTYPE_MISMATCH, i,
          absl::StrCat("it begins at byte ", slice.offset, ", which is no multiple of ", needed.alignment));
    }
  }
  return CheckNumbered(buffers, integers);
}

absl::Status Sequence::CheckSharing(absl::Span<const BufferSlice> buffers, absl::Span<const int64_t> integers) const {
  Regions regions;
  for (size_t i = 0; i < buffers.size(); ++i) {
    const BufferSlice& slice = buffers[i];
    regions.push_back({reinterpret_cast<uintptr_t>(slice.buffer.get()), slice.offset,
                       slice.offset + std::min(buffers_[i].bytes, slice.bytes), buffers_[i].written,
                       static_cast<uint32_t>(i)});
  }
  if (!FindClash(regions).has_value()) return absl::OkStatus();
  // Two buffers are one memory. What each step does with it decides.
  for (size_t i = 0; i < steps_.size(); ++i) {
    const absl::Status status = CheckStepSharing(steps_[i], ValuesOf(steps_[i], integers), buffers);
    if (!status.ok()) return AtStep(status, i);
  }
  return absl::OkStatus();
}

absl::Status Sequence::CheckNumbered(absl::Span<const BufferSlice> buffers, absl::Span<const int64_t> integers) const {
  for (const uint32_t number : numbered_) {
    const SequenceStep& step = steps_[number];
    const Plan& plan = step.program->plan();
    const Values values = ValuesOf(step, integers);
    absl::Status status = CheckVariables(plan.variables, plan.conditions, values);
    if (!status.ok()) return AtStep(status, number);
    if (!HasSymbolicSizes(step)) continue;
    for (size_t i = 0; i < plan.parameters.size(); ++i) {
      const auto [buffer, offset] = step.parameters[i];
      const uint64_t end = offset + plan.parameters[i].shape.BytesAt(values);
      if (end <= buffers[buffer].bytes) continue;
      return AtStep(BadSlot(v1::BUFFER_SIZE_MISMATCH, plan.parameters[i].slot,
                            absl::StrCat("it is bytes ", offset, " to ", end, " of buffer ", buffer, ", which has ",
                                         buffers[buffer].bytes)),
                    number);
    }
    if (status = CheckStepSharing(step, values, buffers); !status.ok()) return AtStep(status, number);
  }
  return absl::OkStatus();
}

uint64_t Sequence::memory_bytes() const {
  uint64_t bytes = sizeof(Sequence) + steps_.size() * sizeof(SequenceStep) + buffers_.size() * sizeof(SequenceBuffer) +
                   launches_.size() * (sizeof(hal::Launch) + sizeof(uint32_t)) +
                   operands_.size() * sizeof(SequenceOperand);
  absl::flat_hash_set<const Program*> programs;
  for (const SequenceStep& step : steps_) {
    bytes += step.parameters.size() * sizeof(step.parameters[0]) + step.variables.size() * sizeof(step.variables[0]);
    if (programs.insert(step.program.get()).second) bytes += step.program->memory_bytes();
  }
  return bytes;
}

}  // namespace kiln::runtime
