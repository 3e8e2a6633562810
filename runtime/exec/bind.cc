#include "runtime/exec/bind.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/plan/sharing.h"

namespace kiln::runtime {
namespace {

using hal::BufferSlice;

// `what` and `number` name the slice to people ("slot 3", "result 0"); `slot`
// goes into the detail.
absl::Status Bad(v1::ErrorCode code, absl::string_view what, uint32_t number, absl::string_view why) {
  v1::ErrorDetail detail;
  detail.set_code(code);
  if (what == "slot") {
    detail.set_slot(number);
  } else {
    detail.set_field(absl::StrCat(what, " ", number));
  }
  return MakeError(std::move(detail), absl::StrCat(what, " ", number, ": ", why));
}

absl::Status CheckOne(const BufferSlice& slice, uint64_t bytes, uint64_t alignment, const hal::Device& device,
                      absl::string_view what, uint32_t number) {
  if (slice.buffer == nullptr) return Bad(v1::MISSING_ARGUMENT, what, number, "there is no buffer");
  if (absl::Status status = hal::CheckSlice(slice); !status.ok()) {
    return Bad(v1::OUT_OF_BOUNDS, what, number, status.message());
  }
  if (slice.buffer->device() != &device) {
    return Bad(
        v1::BUFFER_DEVICE_MISMATCH, what, number,
        absl::StrCat("the buffer is on ", slice.buffer->device()->name(), ", and the program on ", device.name()));
  }
  if (slice.bytes != bytes) {
    return Bad(v1::BUFFER_SIZE_MISMATCH, what, number,
               absl::StrCat("the buffer has ", slice.bytes, " bytes, and the program takes ", bytes));
  }
  if (bytes != 0 && slice.offset % alignment != 0) {
    return Bad(v1::BUFFER_DTYPE_MISMATCH, what, number,
               absl::StrCat("it begins at byte ", slice.offset, ", which is no multiple of ", alignment));
  }
  return absl::OkStatus();
}

absl::Status CheckWritten(const std::vector<PlanParameter>& plan, absl::Span<const BufferSlice> slices) {
  Regions regions;
  for (size_t i = 0; i < slices.size(); ++i) {
    regions.push_back({reinterpret_cast<uintptr_t>(slices[i].buffer.get()), slices[i].offset,
                       slices[i].offset + slices[i].bytes, plan[i].written, plan[i].slot});
  }
  const auto clash = FindClash(regions);
  if (!clash.has_value()) return absl::OkStatus();
  return Bad(v1::BAD_ARGUMENT, "slot", clash->first,
             absl::StrCat("the program writes it, and it shares bytes with slot ", clash->second));
}

}  // namespace

absl::Status CheckParameters(const LoadedExecutable& program, absl::Span<const BufferSlice> parameters,
                             VariableValues variables) {
  const std::vector<PlanParameter>& plan = program.plan().parameters;
  if (parameters.size() < plan.size()) {
    return Bad(v1::MISSING_ARGUMENT, "slot", plan[parameters.size()].slot,
               absl::StrCat("the program takes ", plan.size(), " buffers, and there are ", parameters.size()));
  }
  if (parameters.size() > plan.size()) {
    return MakeError(v1::UNKNOWN_ARGUMENT,
                     absl::StrCat("the program takes ", plan.size(), " buffers, and there are ", parameters.size()));
  }
  for (size_t i = 0; i < plan.size(); ++i) {
    KILN_RETURN_IF_ERROR(CheckOne(parameters[i], plan[i].shape.BytesAt(variables), plan[i].alignment, program.device(),
                                  "slot", plan[i].slot));
  }
  return CheckWritten(plan, parameters);
}

absl::Status CheckResults(const LoadedExecutable& program, absl::Span<const BufferSlice> parameters,
                          absl::Span<const BufferSlice> results, VariableValues variables) {
  const std::vector<PlanResult>& plan = program.plan().results;
  if (results.size() != plan.size()) {
    return MakeError(v1::BAD_ARGUMENT, absl::StrCat("the program has ", plan.size(), " results, and there are ",
                                                    results.size(), " buffers for them"));
  }
  for (uint32_t i = 0; i < plan.size(); ++i) {
    if (plan[i].alias != PlanResult::kFresh) {
      if (results[i].buffer == nullptr) continue;
      return Bad(v1::BAD_ARGUMENT, "result", i, "it is a parameter and takes no buffer");
    }
    KILN_RETURN_IF_ERROR(
        CheckOne(results[i], plan[i].shape.BytesAt(variables), hal::kBufferAlignment, program.device(), "result", i));
    for (const BufferSlice& parameter : parameters) {
      if (hal::Overlap(results[i], parameter)) {
        return Bad(v1::BAD_ARGUMENT, "result", i, "its buffer shares bytes with a parameter");
      }
    }
    for (uint32_t j = 0; j < i; ++j) {
      if (hal::Overlap(results[i], results[j])) {
        return Bad(v1::BAD_ARGUMENT, "result", i, absl::StrCat("its buffer shares bytes with result ", j));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSlices(absl::Span<const WantedSlice> wanted, absl::Span<const BufferSlice> slices) {
  if (slices.size() != wanted.size()) {
    return MakeError(slices.size() < wanted.size() ? v1::MISSING_ARGUMENT : v1::UNKNOWN_ARGUMENT,
                     absl::StrCat("the program takes ", wanted.size(), " buffers, and there are ", slices.size()));
  }
  Regions regions;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const WantedSlice& slice = wanted[i];
    KILN_RETURN_IF_ERROR(CheckOne(slices[i], slice.bytes, slice.alignment, *slice.device, "slot", slice.slot));
    regions.push_back({reinterpret_cast<uintptr_t>(slices[i].buffer.get()), slices[i].offset,
                       slices[i].offset + slices[i].bytes, slice.written, slice.slot});
  }
  const auto clash = FindClash(regions);
  if (!clash.has_value()) return absl::OkStatus();
  return Bad(v1::BAD_ARGUMENT, "slot", clash->first,
             absl::StrCat("the program writes it, and it shares bytes with slot ", clash->second));
}

}  // namespace kiln::runtime
