#include "server/engine/batching/batcher.h"

#include <pthread.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/account.h"
#include "base/check.h"
#include "base/clock.h"

namespace kiln::server {
namespace {

// Above these a run of one's own costs little more than its part of a larger one, and waiting for another's is dear. A
// run of several is no longer than that, either, as far as runs so far tell.
constexpr uint64_t kMaxInputBytes = 256 << 10;
constexpr uint64_t kMaxRunNs = 20'000'000;
// Of one run, which a device's thread puts together.
constexpr size_t kMaxMembers = 256;
constexpr uint64_t kMaxJoinedBytes = 4 << 20;
// More of a kind are run alone, and so may be refused as others are (server/fair/turns.h).
constexpr size_t kMaxWaiting = 1024;
// How soon those are answered that nobody waits for any more.
constexpr absl::Duration kTick = absl::Milliseconds(5);

uint64_t ExpectedNs(const StoredProgram& program, int64_t rows) {
  const std::optional<uint64_t> expected = program.row_times.Expected(rows);
  return expected.has_value() ? *expected : program.program->single()->estimate().expected_ns();
}

bool IsUnwanted(const Control& control, absl::Time now) {
  return (control.cancelled != nullptr && control.cancelled->load(std::memory_order_relaxed)) ||
         now >= control.deadline;
}

void CountRun(StoredProgram& program, int64_t rows, const ExecuteTiming& timing) {
  program.row_times.Observe(rows, static_cast<uint64_t>(timing.device * 1e3));
}

}  // namespace

Batcher::Batcher(RunFn run, Metrics* metrics) : run_(std::move(run)), metrics_(metrics) {
  watch_ = std::thread([this] { SweepUntilStopped(); });
  pthread_setname_np(watch_.native_handle(), "kiln-batcher");
}

Batcher::~Batcher() {
  {
    absl::MutexLock lock(&mutex_);
    KILN_CHECK(lines_.empty());
    stopping_ = true;
  }
  bell_.Ring();
  watch_.join();
}

bool Batcher::Add(BatchMember& member) {
  auto found = PartOf(member.program(), member.request(), member.control().account);
  if (!found.has_value()) return false;
  auto& [kind, part] = *found;
  if (part.input_bytes > kMaxInputBytes || ExpectedNs(*kind.program, part.rows) > kMaxRunNs) return false;
  {
    absl::MutexLock lock(&mutex_);
    const auto [line, is_first] = lines_.try_emplace(kind);
    if (line->second.waiting.size() >= kMaxWaiting) return false;
    line->second.waiting.push_back({&member, std::move(part), SteadyNow()});
    ++waiting_;
    if (!is_first) {
      Wake();
      return true;
    }
  }
  Drive(kind);
  return true;
}

void Batcher::Drive(const BatchKind& kind) {
  for (;;) {
    Gone gone;
    std::vector<Waiting> members = Next(kind, gone);
    const bool none = members.empty() && gone.empty();
    for (auto& [member, status] : gone) member->Fail(std::move(status));
    if (none) return;
    if (members.empty()) continue;
    Start(kind, std::move(members));
    absl::MutexLock lock(&mutex_);
    Line& line = lines_.find(kind)->second;
    line.starting = false;
    if (!line.ended) return;  // OnEnded() goes on
  }
}

std::vector<Batcher::Waiting> Batcher::Next(const BatchKind& kind, Gone& gone) {
  std::vector<Waiting> members;
  int64_t rows = 0;
  uint64_t bytes = 0;
  const int64_t most = kind.program->rows->most;
  absl::MutexLock lock(&mutex_);
  const auto found = lines_.find(kind);
  Line& line = found->second;
  while (!line.waiting.empty() && members.size() < kMaxMembers) {
    Waiting& next = line.waiting.front();
    if (absl::Status wanted = next.member->control().Check(); !wanted.ok()) {
      gone.emplace_back(next.member, std::move(wanted));
    } else {
      const bool fits = !next.alone && next.part.rows <= most - rows &&
                        bytes + next.part.input_bytes <= kMaxJoinedBytes &&
                        ExpectedNs(*kind.program, rows + next.part.rows) <= kMaxRunNs;
      if (!members.empty() && !fits) break;
      rows += next.part.rows;
      bytes += next.part.input_bytes;
      members.push_back(std::move(next));
    }
    line.waiting.pop_front();
    --waiting_;
    if (!members.empty() && members.back().alone) break;
  }
  if (members.empty() && gone.empty()) {
    lines_.erase(found);
  } else if (!members.empty()) {
    line.starting = true;
    line.ended = false;
  }
  return members;
}

void Batcher::Start(const BatchKind& kind, std::vector<Waiting> members) {
  if (members.size() == 1) {
    const int64_t rows = members[0].part.rows;
    return members[0].member->Run([this, kind, rows](const ExecuteTiming* timing) {
      if (timing != nullptr) CountRun(*kind.program, rows, *timing);
      OnEnded(kind);
    });
  }
  auto joined = std::make_shared<Joined>();
  joined->members = std::move(members);
  joined->begin = SteadyNow();
  std::vector<const BatchPart*> parts;
  // It goes on as long as it is in time for one of them.
  Control control = joined->members[0].member->control();
  control.cancelled = &joined->cancelled;
  for (const Waiting& waiting : joined->members) {
    parts.push_back(&waiting.part);
    control.deadline = std::max(control.deadline, waiting.member->control().deadline);
  }
  Join(kind.program, parts, joined->run);
  joined->run.request.parts = &joined->parts;
  metrics_->batched_runs.Add(1);
  metrics_->batched_requests.Add(static_cast<int64_t>(joined->members.size()));
  {
    absl::MutexLock lock(&mutex_);
    joined_.insert(joined.get());
    Wake();
  }
  run_(std::move(joined->run.request), control,
       [this, kind, joined](absl::StatusOr<ExecuteResult> result) { Answer(kind, *joined, std::move(result)); });
}

// The next run is started first: the device need not wait, and with the last answer, all of this may end.
void Batcher::Answer(const BatchKind& kind, Joined& joined, absl::StatusOr<ExecuteResult> result) {
  {
    absl::MutexLock lock(&mutex_);
    joined_.erase(&joined);
    if (!result.ok()) {
      // One request's fault is not another's: each is run by itself.
      Line& line = lines_.find(kind)->second;
      waiting_ += joined.members.size();
      for (auto member = joined.members.rbegin(); member != joined.members.rend(); ++member) {
        member->alone = true;
        line.waiting.push_front(std::move(*member));
      }
      Wake();
    }
  }
  if (result.ok()) CountRun(*kind.program, joined.run.rows, result->timing);
  OnEnded(kind);
  if (result.ok()) Distribute(kind, joined, *result);
}

void Batcher::Distribute(const BatchKind& kind, Joined& joined, ExecuteResult& result) {
  const uint64_t held = result.charge.amount() / static_cast<uint64_t>(joined.run.rows);
  result.charge.Release();
  int64_t first = 0;
  int batch = static_cast<int>(joined.members.size());
  for (const Waiting& waiting : joined.members) {
    const int64_t rows = waiting.part.rows;
    ExecuteResult part;
    part.program = kind.program;
    part.timing = result.timing;
    part.batch = std::exchange(batch, 0);
    part.results = Share(*kind.program->rows, result.results, joined.run.rows, first, rows);
    first += rows;
    if (CallParts* parts = waiting.part.request->parts; parts != nullptr) parts->SetRunOf(joined.parts);
    auto charge = Hold(waiting.member->control().account, Quota::kHostBytes, held * static_cast<uint64_t>(rows));
    if (!charge.ok()) {
      waiting.member->Fail(std::move(charge).status());
      continue;
    }
    part.charge = *std::move(charge);
    waiting.member->Answer(std::move(part), joined.begin - waiting.since);
  }
}

void Batcher::OnEnded(const BatchKind& kind) {
  {
    absl::MutexLock lock(&mutex_);
    Line& line = lines_.find(kind)->second;
    line.ended = true;
    if (line.starting) return;  // Drive() goes on
  }
  Drive(kind);
}

void Batcher::Wake() {
  if (std::exchange(asleep_, false)) bell_.Ring();
}

void Batcher::Sweep(Gone& gone) {
  const absl::Time now = SteadyNow();
  for (auto& [kind, line] : lines_) {
    for (auto waiting = line.waiting.begin(); waiting != line.waiting.end();) {
      const Control& control = waiting->member->control();
      if (!IsUnwanted(control, now)) {
        ++waiting;
        continue;
      }
      gone.emplace_back(waiting->member, control.Check());
      waiting = line.waiting.erase(waiting);
      --waiting_;
    }
  }
  for (Joined* joined : joined_) {
    const bool wanted = std::any_of(joined->members.begin(), joined->members.end(), [now](const Waiting& waiting) {
      return !IsUnwanted(waiting.member->control(), now);
    });
    if (!wanted) joined->cancelled.store(true, std::memory_order_relaxed);
  }
}

void Batcher::SweepUntilStopped() {
  for (;;) {
    bool idle = false;
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      idle = asleep_ = waiting_ == 0 && joined_.empty();
    }
    bell_.Wait(idle ? absl::InfiniteDuration() : kTick);
    Gone gone;
    {
      absl::MutexLock lock(&mutex_);
      Sweep(gone);
    }
    for (auto& [member, status] : gone) member->Fail(std::move(status));
  }
}

}  // namespace kiln::server
