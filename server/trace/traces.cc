#include "server/trace/traces.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>

#include "base/clock.h"

namespace kiln::server {
namespace {

// Of all memory.
constexpr uint64_t kCallsShare = 20, kStagesShare = 1, kRunsShare = 8, kLaunchesShare = 3;
constexpr uint64_t kShares = kCallsShare + kStagesShare + kRunsShare + kLaunchesShare;

// SplitMix64: distinct numbers for distinct numbers, that look random.
uint64_t Mixed(uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9;
  number = (number ^ (number >> 27)) * 0x94d049bb133111eb;
  return number ^ (number >> 31);
}

// Of one in so many, as OpenTelemetry's samplers have it: by the trace's own id, so that whoever else samples the same
// trace so keeps the same ones.
constexpr uint64_t kRatioBits = 56;

uint64_t BoundOf(double ratio) {
  return static_cast<uint64_t>(std::clamp(ratio, 0.0, 1.0) * static_cast<double>(uint64_t{1} << kRatioBits));
}

uint64_t RatioOf(const TraceId& id) {
  uint64_t number = 0;
  for (size_t i = id.size() - kRatioBits / 8; i < id.size(); ++i) number = number << 8 | id[i];
  return number;
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
    if (record.time.end_ns < wanted.since_ns || record.time.begin_ns < wanted.begun_since_ns ||
        (wanted.owner.has_value() && record.owner != *wanted.owner))
      return;
    found.push_back(record);
  });
  std::sort(found.begin(), found.end(), kByEnd);
  return found;
}

Interval JustEnded(double seconds) {
  const int64_t now = absl::ToUnixNanos(SteadyNow());
  return {now - static_cast<int64_t>(seconds * 1e9), now};
}

}  // namespace

TraceId TraceOf(const SpanId& span) {
  uint64_t id = 0;
  std::memcpy(&id, span.data(), sizeof(id));
  const uint64_t trace[2] = {Mixed(id), Mixed(~id)};
  TraceId made;
  std::memcpy(made.data(), trace, sizeof(trace));
  return made;
}

SpanId ChildOf(const SpanId& span, uint64_t number) {
  uint64_t id = 0;
  std::memcpy(&id, span.data(), sizeof(id));
  id = Mixed(id ^ Mixed(number + 1));
  SpanId made;
  std::memcpy(made.data(), &id, sizeof(id));
  return made;
}

std::string OwnerName(const Accounts& accounts, uint32_t owner) {
  if (owner == 0 || owner > Accounts::kNumbered) return "";
  const Account* const account = accounts.Numbered(owner - 1);
  return account == nullptr ? "" : account->name();
}

Traces::Traces(uint64_t bytes, runtime::RuntimeObserver* next)
    : calls_(bytes / kShares * kCallsShare),
      stages_(bytes / kShares * kStagesShare),
      runs_(bytes / kShares * kRunsShare),
      launches_(bytes / kShares * kLaunchesShare),
      next_(next),
      seed_(RandomSeed()) {}

void Traces::SetSink(std::shared_ptr<TraceSink> sink, double ratio) {
  sink_ = std::move(sink);
  first_sampling_ = {ratio > 0, ratio};
  SetSampling(first_sampling_);
}

Traces::Sampling Traces::sampling() const {
  absl::MutexLock lock(&sampling_mutex_);
  return sampling_;
}

void Traces::SetSampling(Sampling sampling) {
  absl::MutexLock lock(&sampling_mutex_);
  sampling_ = sampling;
  sampled_below_.store(sampling.on ? BoundOf(sampling.ratio) : 0, std::memory_order_relaxed);
}

CallTrace Traces::Fresh() {
  CallTrace trace;
  const uint64_t id = Mixed(seed_ + made_.fetch_add(1, std::memory_order_relaxed));
  std::memcpy(trace.span_id.data(), &id, sizeof(id));
  trace.trace_id = TraceOf(trace.span_id);
  trace.sampled = RatioOf(trace.trace_id) < sampled_below_.load(std::memory_order_relaxed);
  return trace;
}

CallTrace Traces::Begin(const std::optional<TraceContext>& context) {
  if (!on()) return {};
  CallTrace trace = Fresh();
  if (!context.has_value()) return trace;
  trace.trace_id = context->trace_id;
  trace.parent = context->parent;
  trace.remote = true;
  trace.sampled = context->sampled && sink_ != nullptr;
  return trace;
}

CallTrace Traces::BeginCommand(const CallTrace& stream) {
  if (!on()) return {};
  CallTrace trace = Fresh();
  trace.parent = stream.span_id;
  trace.linked = !stream.remote;
  if (trace.linked) return trace;
  trace.trace_id = stream.trace_id;
  trace.sampled = stream.sampled;
  return trace;
}

void Traces::Keep(const CallRecord& record, const CompileStages* stages) {
  CompileStages own;
  if (stages != nullptr) own = stages->Within(record.parts.parts[static_cast<size_t>(Part::kCompile)]);
  const bool has_own = !own.all().empty();
  if (record.trace.sampled) sink_->OnCall(record, has_own ? &own : nullptr);
  if (has_own) stages_.Write({record.trace.span_id, own});
  calls_.Write(record);
}

absl::flat_hash_map<SpanId, CompileStages> Traces::Stages() const {
  absl::flat_hash_map<SpanId, CompileStages> found;
  stages_.Read([&](const StagesOfCall& record) { found[record.call] = record.stages; });
  return found;
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
  if (on()) {
    RunOfDevice run;
    run.time = JustEnded(record.device_seconds);
    run.call = record.trace;
    run.owner = OwnerNumber(record.account);
    run.launches = record.launches;
    run.device.Set(record.device);
    runs_.Write(run);
    if (record.trace != 0) sink_->OnRun(run);
  }
  if (next_ != nullptr) next_->OnRun(record);
}

bool Traces::WantsLaunches(uint64_t trace) const {
  if (trace != 0 || (next_ != nullptr && next_->WantsLaunches(trace))) return true;
  const int64_t until = launches_until_ns_.load(std::memory_order_relaxed);
  return until != 0 && launches_.keeps() && absl::ToUnixNanos(SteadyNow()) < until;
}

void Traces::OnLaunch(const runtime::LaunchRecord& record) {
  RunOfDevice launch;
  launch.time = JustEnded(record.seconds);
  launch.call = record.trace;
  launch.owner = OwnerNumber(record.account);
  launch.launches = 1;
  launch.device.Set(record.device);
  launch.kernel.Set(record.kernel);
  launches_.Write(launch);
  if (record.trace != 0) sink_->OnRun(launch);
  if (next_ != nullptr && next_->WantsLaunches(record.trace)) next_->OnLaunch(record);
}

}  // namespace kiln::server
