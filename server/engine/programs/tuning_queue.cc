#include "server/engine/programs/tuning_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "base/error.h"
#include "server/engine/programs/device_timer.h"
#include "server/fair/owner.h"

namespace kiln::server {
namespace {

// Of callers beyond so many that search at once, some share a thread.
constexpr size_t kMostThreads = 32;

}  // namespace

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

void TuningQueue::Schedule(const runtime::hal::LaunchControl& control, absl::AnyInvocable<void()> job) {
  std::vector<std::unique_ptr<CompilePool>> idle;  // gone after the lock
  absl::MutexLock lock(&mutex_);
  for (auto each = threads_.begin(); each != threads_.end();) {
    const auto next = std::next(each);
    if (each->second->idle()) {
      idle.push_back(std::move(each->second));
      threads_.erase(each);
    }
    each = next;
  }
  uint64_t caller = OwnerOf(control).tenant;
  if (!threads_.contains(caller) && threads_.size() >= kMostThreads)
    caller = std::next(threads_.begin(), static_cast<ptrdiff_t>(caller % threads_.size()))->first;
  std::unique_ptr<CompilePool>& thread = threads_[caller];
  if (thread == nullptr) thread = std::make_unique<CompilePool>(1);
  thread->Schedule(control, std::move(job));
}

void TuningQueue::Stop() {
  stopping_.store(true, std::memory_order_relaxed);
  Threads ending;
  absl::MutexLock lock(&mutex_);
  ending.swap(threads_);
}

absl::StatusOr<compiler::Tuned> TuningQueue::Run(runtime::hal::Device& device, const v1::Graph& graph,
                                                 const compiler::Options& options, const CompileFor& whom,
                                                 std::function<void(const compiler::TuneEvent&)> progress) {
  if (!tune_) return MakeError(v1::UNSUPPORTED_OP, "this server has no search for schedules");
  KILN_RETURN_IF_ERROR(CheckRate(whom.control.account, Quota::kSearchSeconds));
  DeviceTimer timer(device, {&pool_, helpers_, &turns_, &searching_, &stopping_},
                    absl::Milliseconds(options.beam_budget_ms), whom.control);
  KILN_RETURN_IF_ERROR(timer.Begin());
  compiler::TuneOptions tuning;
  tuning.width = options.beam;
  tuning.progress = std::move(progress);
  auto tuned = tune_(graph, device.target(), options, std::move(tuning), timer, whom);
  Owe(whom.control.account, Quota::kSearchSeconds, absl::ToDoubleSeconds(timer.used()));
  return tuned;
}

}  // namespace kiln::server
