// Runs that pause, so that another tenant has the device between two of their slices.
//
// Tested by server/fair/turns_pause_test.cc.
#include <algorithm>
#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/fair/device_line.h"
#include "server/fair/owner.h"
#include "server/fair/slice.h"
#include "server/fair/turns.h"
#include "server/metrics/labels.h"

namespace kiln::server {

void Turns::Measured(const Waiting& waiting, uint64_t ns, absl::Time now, bool ended) {
  const Account* const account = waiting.request.control.account;
  const size_t tenant = NumberOf(TenantOf(account));
  for (const Waiting::Place& place : waiting.places) {
    DeviceLine& line = *place.line;
    line.measured_ns[PayerOf(account)] += ns;
    ended ? line.shares.End(tenant, ns, absl::ToUnixNanos(now)) : line.shares.Use(tenant, ns, absl::ToUnixNanos(now));
  }
}

absl::Duration Turns::SliceFor(const Waiting& waiting) const {
  const Waiting::Place& place = waiting.places.front();
  return options_.slice * SliceOf(place.line->shares.PartOf(NumberOf(TenantOf(waiting.request.control.account))));
}

void Turns::GiveWay(Waiting& waiting) {
  Waiting::Place& place = waiting.places.front();
  DeviceLine& line = *place.line;
  runtime::hal::Queue& queue = waiting.request.devices.front()->queue();
  runtime::hal::Work* const continuation = queue.Continuation();
  const absl::Time now = SteadyNow();
  if (continuation == nullptr) return waiting.GoOnUntil(now + options_.slice);  // others may have gone on by then
  const bool works = waiting.works(), counts = waiting.cores().counts();
  waiting.EndWork();
  {
    absl::MutexLock lock(&mutex_);
    // By the clock, since what was before it at the device has ended.
    const absl::Duration passed = now - std::max(waiting.slice_began, line.worked_since);
    const absl::Duration used = counts ? waiting.cores().had() : passed;
    const auto used_ns = static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(used)));
    waiting.settled_ns += used_ns;
    Measured(waiting, used_ns, now, /*ended=*/false);
    waiting.Settled();
    waiting.BeginSlice(now, SliceFor(waiting));
    line.worked_since = now;
    if (!line.queue.Pause(place.entry, used_ns)) {
      if (works) waiting.BeginWork();
      return;
    }
    waiting.continuation = continuation;
    waiting.missing = 1;
    ++paused_;
    ++line.pauses;
    if (asleep_) bell_.Ring();
  }
  Pump({&line});  // what that hands on comes behind this in the device's queue
  queue.Pause();
  const absl::Time back = SteadyNow();
  waiting.WasAway(back - now);
  {
    absl::MutexLock lock(&mutex_);
    waiting.BeginSlice(back, SliceFor(waiting));
  }
  if (works) waiting.BeginWork();
}

runtime::hal::Work* Turns::TakeContinuation(Waiting& waiting) {
  if (waiting.continuation != nullptr) --paused_;
  return std::exchange(waiting.continuation, nullptr);
}

void Turns::Rush() {
  struct Gone {
    runtime::hal::Queue& queue;
    runtime::hal::Work* continuation;
    DeviceLine* line;
    FairQueue::Session* session;
  };
  std::vector<Gone> gone;
  Lines lines;
  {
    absl::MutexLock lock(&mutex_);
    if (paused_ == 0) return;
    for (Waiting* waiting = running_; waiting != nullptr; waiting = waiting->next) {
      if (waiting->continuation == nullptr || waiting->request.control.Check().ok()) continue;
      Waiting::Place& place = waiting->places.front();
      gone.push_back({waiting->request.devices.front()->queue(), TakeContinuation(*waiting), place.line,
                      place.line->queue.Rush(place.entry)});
      waiting->BeginSlice(SteadyNow(), SliceFor(*waiting));
      waiting->missing = 0;
      Add(place.line, lines);
    }
  }
  for (const Gone& each : gone) {
    each.queue.Submit(each.continuation, kNotOnThisThread);
    absl::MutexLock lock(&mutex_);
    each.line->queue.Open(each.session);
  }
  if (!lines.empty()) Pump(std::move(lines));
}

}  // namespace kiln::server
