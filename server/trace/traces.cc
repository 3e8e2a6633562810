#include "server/trace/traces.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>

#include "absl/time/clock.h"

namespace kiln::server {
namespace {

// Of all memory, in parts of eight.
constexpr uint64_t kCallsShare = 5, kRunsShare = 2, kLaunchesShare = 1;

// SplitMix64: distinct numbers for distinct numbers, that look random.
uint64_t Mixed(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

uint64_t RandomSeed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

constexpr auto kByEnd = [](const auto& a, const auto& b) { return a.time.end_ns < b.time.end_ns; };

template <typename Record>
std::vector<Record> Sorted(const Ring<Record>& ring, const Traces::Wanted& wanted) {
  std::vector<Record> found;
  ring.Read([&](const Record& record) {
    if (record.time.end_ns < wanted.since_ns || (wanted.owner.has_value() && record.owner != *wanted.owner)) return;
    found.push_back(record);
  });
  std::sort(found.begin(), found.end(), kByEnd);
  return found;
}

Interval JustEnded(double seconds) {
  const int64_t now = absl::GetCurrentTimeNanos();
  return {now - static_cast<int64_t>(seconds * 1e9), now};
}

}  // namespace

Traces::Traces(uint64_t bytes, runtime::RuntimeObserver* next)
    : calls_(bytes / 8 * kCallsShare),
      runs_(bytes / 8 * kRunsShare),
      launches_(bytes / 8 * kLaunchesShare),
      next_(next),
      seed_(RandomSeed()) {}

CallRecord Traces::Keep(CallRecord record, const std::optional<TraceContext>& context) {
  if (!on()) return record;
  const uint64_t id = Mixed(seed_ + made_.fetch_add(1, std::memory_order_relaxed));
  std::memcpy(record.span_id.data(), &id, sizeof(id));
  if (context.has_value()) {
    record.trace_id = context->trace_id;
    record.parent = context->parent;
  } else {
    const uint64_t trace[2] = {Mixed(id), Mixed(~id)};
    std::memcpy(record.trace_id.data(), trace, sizeof(trace));
  }
  calls_.Write(record);
  return record;
}

std::vector<CallRecord> Traces::Calls(const Wanted& wanted) const { return Sorted(calls_, wanted); }

std::vector<RunOfDevice> Traces::Runs(const Wanted& wanted) const {
  const std::vector<RunOfDevice> runs = Sorted(runs_, wanted), launches = Sorted(launches_, wanted);
  std::vector<RunOfDevice> all;
  all.reserve(runs.size() + launches.size());
  std::merge(runs.begin(), runs.end(), launches.begin(), launches.end(), std::back_inserter(all), kByEnd);
  return all;
}

void Traces::OnRun(const runtime::RunRecord& record) {
  if (runs_.keeps()) {
    RunOfDevice run;
    run.time = JustEnded(record.device_seconds);
    run.owner = OwnerNumber(record.account);
    run.launches = record.launches;
    run.device.Set(record.device);
    runs_.Write(run);
  }
  if (next_ != nullptr) next_->OnRun(record);
}

bool Traces::WantsLaunches() const {
  if (next_ != nullptr && next_->WantsLaunches()) return true;
  const int64_t until = launches_until_ns_.load(std::memory_order_relaxed);
  return until != 0 && launches_.keeps() && absl::GetCurrentTimeNanos() < until;
}

void Traces::OnLaunch(const runtime::LaunchRecord& record) {
  RunOfDevice launch;
  launch.time = JustEnded(record.seconds);
  launch.launches = 1;
  launch.device.Set(record.device);
  launch.kernel.Set(record.kernel);
  launches_.Write(launch);
  if (next_ != nullptr && next_->WantsLaunches()) next_->OnLaunch(record);
}

}  // namespace kiln::server
