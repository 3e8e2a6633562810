#include "server/otlp/backlog.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace kiln::server {

void Backlog::OnCall(const CallRecord& call, const CompileStages* stages) {
  Place& place = PlaceOf(call.owner);
  size_t calls = 0;
  {
    absl::MutexLock lock(&place.mutex);
    if (place.calls.size() == kCallsOfOne) PushOut(place);
    place.calls.push_back(call);
    if (stages != nullptr) place.stages[call.trace.number()] = *stages;
    calls = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  if (calls == kEnough) Wake();
}

// Nobody will ask for its runs, which are the oldest, unless it had others beside it.
void Backlog::PushOut(Place& place) {
  const uint64_t call = place.calls.front().trace.number();
  place.calls.pop_front();
  place.stages.erase(call);
  calls_.fetch_sub(1, std::memory_order_relaxed);
  uint64_t gone = 1;
  for (; !place.runs.empty() && place.runs.front().call == call; ++gone) place.runs.pop_front();
  metrics_->otlp_records.Add(gone, ExportEnd::kPushedOut);
}

void Backlog::OnRun(const RunOfDevice& run) {
  Place& place = PlaceOf(run.owner);
  absl::MutexLock lock(&place.mutex);
  if (place.runs.size() == kRunsOfOne) {
    place.runs.pop_front();
    metrics_->otlp_records.Add(1, ExportEnd::kPushedOut);
  }
  place.runs.push_back(run);
}

void Backlog::TakeFrom(Place& place, Taken& taken) {
  absl::MutexLock lock(&place.mutex);
  const size_t count = std::min(place.calls.size(), kCallsAtOnce);
  if (count == 0) return;
  absl::flat_hash_set<uint64_t> of_these;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t call = place.calls.front().trace.number();
    of_these.insert(call);
    if (const auto found = place.stages.find(call); found != place.stages.end()) {
      taken.stages.insert(*found);
      place.stages.erase(found);
    }
    taken.calls.push_back(place.calls.front());
    place.calls.pop_front();
  }
  calls_.fetch_sub(count, std::memory_order_relaxed);
  const auto theirs = [&](const RunOfDevice& run) { return of_these.contains(run.call); };
  std::copy_if(place.runs.begin(), place.runs.end(), std::back_inserter(taken.runs), theirs);
  place.runs.erase(std::remove_if(place.runs.begin(), place.runs.end(), theirs), place.runs.end());
}

Backlog::Taken Backlog::Take() {
  Taken taken;
  for (size_t i = 0; i < kPlaces && taken.calls.size() < kEnough; ++i) {
    TakeFrom(places_[next_], taken);
    next_ = (next_ + 1) % kPlaces;
  }
  return taken;
}

void Backlog::Wait(absl::Duration most) {
  if (calls_.load(std::memory_order_relaxed) < kEnough) bell_.Wait(most);
}

void Backlog::Wake() { bell_.Ring(); }

}  // namespace kiln::server
