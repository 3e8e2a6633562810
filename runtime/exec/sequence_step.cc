#include "runtime/exec/sequence_step.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "runtime/plan/sharing.h"

namespace kiln::runtime {

absl::Status BadSlot(v1::ErrorCode code, uint32_t slot, absl::string_view why) {
  return SlotError(code, slot, absl::StrCat("slot ", slot, ": ", why));
}

StepValues ValuesOf(const SequenceStep& step, absl::Span<const int64_t> integers) {
  StepValues values;
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
  const std::vector<PlanParameter>& plan = TakenBy(step);
  return std::any_of(plan.begin(), plan.end(), [](const PlanParameter& p) { return p.shape.is_symbolic(); });
}

absl::Status CheckStepVariables(const SequenceStep& step, const StepValues& values) {
  if (step.multi != nullptr) return step.multi->CheckValues(values);
  const Plan& plan = step.program->plan();
  return CheckVariables(plan.variables, plan.conditions, values);
}

absl::Status CheckStepSharing(const SequenceStep& step, const StepValues& values,
                              absl::Span<const hal::BufferSlice> buffers) {
  const std::vector<PlanParameter>& plan = TakenBy(step);
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
}  // namespace kiln::runtime
