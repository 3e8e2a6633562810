#include "runtime/hal/module.h"

#include "absl/time/clock.h"
#include "base/error.h"

namespace kiln::runtime::hal {

absl::Status LaunchControl::Check() const {
  if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
    return absl::CancelledError("the run was cancelled");
  }
  if (deadline != absl::InfiniteFuture() && absl::Now() >= deadline) {
    return MakeError(v1::DEADLINE_PASSED, "the deadline passed before the run ended");
  }
  return absl::OkStatus();
}

}  // namespace kiln::runtime::hal
