#include "server/engine/programs/tuning_queue.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "server/engine/programs/device_timer.h"

namespace kiln::server {

absl::Status SettleBeam(const BeamLimits& limits, compiler::Options& options) {
  if (options.beam == 0) {
    options.beam_budget_ms = 0;
    return absl::OkStatus();
  }
  if (limits.max_width == 0) {
    v1::ErrorDetail detail;
    detail.set_code(v1::NOT_ALLOWED);
    detail.set_field("beam");
    return MakeError(detail, "this server searches no schedules (--beam_limits_max_width is 0)");
  }
  options.beam = std::min(options.beam, limits.max_width);
  if (options.beam_budget_ms == 0) options.beam_budget_ms = limits.default_budget_ms;
  options.beam_budget_ms = std::min(options.beam_budget_ms, limits.max_budget_ms);
  return absl::OkStatus();
}

absl::StatusOr<compiler::Tuned> TuningQueue::Run(runtime::hal::Device& device, const v1::Graph& graph,
                                                 const compiler::Options& options, const CompileFor& whom,
                                                 std::function<void(const compiler::TuneEvent&)> progress) {
  if (!tune_) return MakeError(v1::UNSUPPORTED_OP, "this server has no search for schedules");
  KILN_RETURN_IF_ERROR(CheckRate(whom.control.account, Quota::kSearchSeconds));
  const Meter meter(whom.control.account, Quota::kSearchSeconds);
  DeviceTimer timer(device, pool_, helpers_, absl::Milliseconds(options.beam_budget_ms), whom.control, stopping_);
  compiler::TuneOptions tuning;
  tuning.width = options.beam;
  tuning.progress = std::move(progress);
  return tune_(graph, device.target(), options, std::move(tuning), timer, whom);
}

}  // namespace kiln::server
