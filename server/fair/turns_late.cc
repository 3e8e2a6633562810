// Who is told that it cannot be done by its deadline (lateness.h): when it asks for a turn, while it waits, or when its
// turn has come.
//
// Tested by server/fair/turns_late_test.cc.
#include <algorithm>
#include <cstdint>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/fair/device_line.h"
#include "server/fair/lateness.h"
#include "server/fair/owner.h"
#include "server/fair/turns.h"

namespace kiln::server {
namespace {

Prospect ProspectOf(const Waiting& waiting, absl::Time now) {
  const TurnRequest& request = waiting.request;
  Prospect prospect;
  prospect.left = request.control.deadline - now;
  if (waiting.guessed) return prospect;
  prospect.run = absl::Nanoseconds(request.estimate_ns);
  prospect.spread = absl::Nanoseconds(request.spread_ns);
  return prospect;
}

// Whether it is refused by its own estimate, and is to be let try whether that is right.
bool LetTry(const Waiting& waiting, const Prospect& prospect, absl::Time now) {
  Trials* const trials = waiting.request.trials;
  return trials != nullptr && prospect.for_itself() &&
         trials->Due(now, std::min(prospect.run, prospect.left - prospect.wait));
}

}  // namespace

absl::Status Turns::Admit(Waiting& waiting, absl::Time now) {
  const TurnRequest& request = waiting.request;
  waiting.guessed = request.guessed;
  if (request.control.deadline == absl::InfiniteFuture()) return absl::OkStatus();
  const FairOwner owner = OwnerOf(request.control);
  Prospect prospect = ProspectOf(waiting, now);
  uint64_t wait_ns = 0;
  waiting.found_idle = true;
  for (const Waiting::Place& place : waiting.places) {
    const FairQueue& queue = place.line->queue;
    waiting.found_idle &= queue.in_flight() == 0 && queue.waiting() == 0;
    prospect.others_wait |= queue.waiting() > 0;
    wait_ns = std::max(wait_ns, place.line->PredictedWait(owner, now));
  }
  prospect.wait = absl::Nanoseconds(wait_ns);
  if (waiting.found_idle || prospect.in_time()) return absl::OkStatus();
  if (!LetTry(waiting, prospect, now)) return TooLate(prospect);
  waiting.guessed = true;
  return absl::OkStatus();
}

absl::Status Turns::StillInTime(Waiting& waiting, absl::Time now, bool others_wait) {
  if (waiting.found_idle || waiting.request.control.deadline == absl::InfiniteFuture()) return absl::OkStatus();
  Prospect prospect = ProspectOf(waiting, now);
  prospect.others_wait = others_wait;
  if (prospect.in_time()) return absl::OkStatus();
  if (!LetTry(waiting, prospect, now)) return TooLate(prospect);
  waiting.guessed = true;
  return absl::OkStatus();
}

}  // namespace kiln::server
