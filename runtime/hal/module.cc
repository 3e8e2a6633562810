#include "runtime/hal/module.h"

#include "base/clock.h"
#include "base/error.h"

namespace kiln::runtime::hal {

absl::Status LaunchControl::Check() const {
  if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
    return MakeError(v1::CALL_CANCELLED, "the run was cancelled");
  }
  if (deadline != absl::InfiniteFuture() && SteadyNow() >= deadline) {
    return MakeError(v1::DEADLINE_PASSED, "the deadline passed before the run ended");
  }
  return absl::OkStatus();
}

absl::Status Module::LaunchAll(absl::Span<const LaunchStep> steps, void* const* operands, const LaunchControl& control,
                               uint32_t& launched) {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (i != 0) {
      control.GiveWay();
      KILN_RETURN_IF_ERROR(control.Check());
    }
    KILN_RETURN_IF_ERROR(Launch(steps[i].kernel, operands + steps[i].first_operand, control));
    ++launched;
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime::hal
