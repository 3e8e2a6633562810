#include "server/metrics/count.h"

#include <algorithm>
#include <optional>

#include "base/error.h"

namespace kiln::server {

Limit LimitNamed(absl::string_view name) {
  for (size_t number = 0; number < LabelOf<Limit>::kMost; ++number) {
    if (name == LabelOf<Limit>::kNames[number]) return static_cast<Limit>(number);
  }
  return Limit::kOther;
}

bool IsForALimit(const absl::Status& status) {
  if (status.ok()) return false;
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  return detail.has_value() && !detail->limit().empty();
}

void CountFailure(Metrics& metrics, const absl::Status& status) {
  if (status.ok()) return;
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  if (detail.has_value() && !detail->limit().empty()) metrics.rejections.Add(1, LimitNamed(detail->limit()));
}

void CountEnded(Metrics& metrics, const absl::Status& status, Place place) {
  if (absl::IsCancelled(status)) metrics.cancelled.Add(1, place);
  if (absl::IsDeadlineExceeded(status)) metrics.deadline_missed.Add(1, place);
}

CompileEnd EndOf(const absl::Status& status) {
  if (status.ok()) return CompileEnd::kOk;
  if (absl::IsCancelled(status)) return CompileEnd::kCancelled;
  if (absl::IsDeadlineExceeded(status)) return CompileEnd::kDeadline;
  const std::optional<v1::ErrorDetail> detail = DetailOf(status);
  const bool ours = !detail.has_value() || detail->code() == v1::INTERNAL_FAULT || detail->code() == v1::COMPILER_FAULT;
  return ours ? CompileEnd::kFault : CompileEnd::kRefused;
}

void RunCounter::OnRun(const runtime::RunRecord& record) {
  const auto found = std::find(devices_.begin(), devices_.end(), record.device);
  const DeviceNumber device = {static_cast<size_t>(found - devices_.begin())};
  metrics_->queue.ObserveSeconds(record.queue_seconds);
  metrics_->device_busy.AddSeconds(record.device_seconds, device, TenantOf(record.account));
  if (next_ != nullptr) next_->OnRun(record);
}

}  // namespace kiln::server
