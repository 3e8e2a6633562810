#include "runtime/drivers/gpu/launch_clock.h"

#include <utility>

#include "base/error.h"

namespace kiln::runtime::gpu {

absl::Status LaunchClock::MakeEvents() {
  for (OwnedEvent* event : {&first_, &last_}) {
    if (*event) continue;
    KILN_ASSIGN_OR_RETURN(const Event made, card_->MakeTimedEvent());
    *event = OwnedEvent(card_, made);
  }
  return absl::OkStatus();
}

absl::Status LaunchClock::Begin() {
  if (running_) return absl::OkStatus();
  KILN_RETURN_IF_ERROR(MakeEvents());
  KILN_RETURN_IF_ERROR(card_->Record(first_.get(), stream_));
  running_ = true;
  return absl::OkStatus();
}

absl::Status LaunchClock::Finish() {
  const bool launched = std::exchange(running_, false);
  absl::Status status = launched ? card_->Record(last_.get(), stream_) : absl::OkStatus();
  status.Update(card_->Finish(stream_));
  if (!launched || !status.ok()) return status;
  if (const auto seconds = card_->SecondsBetween(first_.get(), last_.get()); seconds.ok()) {
    seconds_ = seconds_.value_or(0) + *seconds;
  }
  return card_->health();
}

std::optional<double> LaunchClock::Take() { return std::exchange(seconds_, std::nullopt); }

}  // namespace kiln::runtime::gpu
