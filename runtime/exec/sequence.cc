#include "runtime/exec/sequence.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/exec/sequence_step.h"
#include "runtime/plan/sharing.h"

namespace kiln::runtime {
namespace {

using hal::BufferSlice;

absl::Status BadBuffer(v1::ErrorCode code, size_t number, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  detail.set_field(absl::StrCat("buffers[", number, "]"));
  return MakeError(std::move(detail), absl::StrCat("buffer ", number, ": ", why));
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
    const hal::Device& device = needed.device != nullptr ? *needed.device : *device_;
    if (slice.buffer->device() != &device) {
      return BadBuffer(
          v1::BUFFER_DEVICE_MISMATCH, i,
          absl::StrCat("it is on ", slice.buffer->device()->name(), ", and the recording for ", device.name()));
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
    const std::vector<PlanParameter>& plan = TakenBy(step);
    const StepValues values = ValuesOf(step, integers);
    absl::Status status = CheckStepVariables(step, values);
    if (!status.ok()) return AtStep(status, number);
    if (!HasSymbolicSizes(step)) continue;
    for (size_t i = 0; i < plan.size(); ++i) {
      const auto [buffer, offset] = step.parameters[i];
      const uint64_t end = offset + plan[i].shape.BytesAt(values);
      if (end <= buffers[buffer].bytes) continue;
      return AtStep(BadSlot(v1::BUFFER_SIZE_MISMATCH, plan[i].slot,
                            absl::StrCat("it is bytes ", offset, " to ", end, " of buffer ", buffer, ", which has ",
                                         buffers[buffer].bytes)),
                    number);
    }
    if (status = CheckStepSharing(step, values, buffers); !status.ok()) return AtStep(status, number);
  }
  return absl::OkStatus();
}

uint64_t Sequence::own_bytes() const {
  uint64_t bytes = sizeof(Sequence) + steps_.size() * sizeof(SequenceStep) + buffers_.size() * sizeof(SequenceBuffer) +
                   launches_.size() * (sizeof(hal::Launch) + sizeof(uint32_t)) +
                   operands_.size() * sizeof(SequenceOperand);
  for (const SequenceStep& step : steps_)
    bytes += step.parameters.size() * sizeof(step.parameters[0]) + step.variables.size() * sizeof(step.variables[0]);
  return bytes;
}

uint64_t Sequence::memory_bytes() const {
  uint64_t bytes = own_bytes();
  absl::flat_hash_set<const void*> programs;
  for (const SequenceStep& step : steps_) {
    if (step.multi != nullptr) {
      if (programs.insert(step.multi.get()).second) bytes += step.multi->memory_bytes();
    } else if (programs.insert(step.program.get()).second) {
      bytes += step.program->memory_bytes();
    }
  }
  return bytes;
}

}  // namespace kiln::runtime
