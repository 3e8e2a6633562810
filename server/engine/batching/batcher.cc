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
constexpr uint64_t kMaxBytes = 256 << 10;  // inputs and results
constexpr uint64_t kMaxRunNs = 20'000'000;
// Of one run, which a device's thread puts together.
constexpr size_t kMaxMembers = 256;
constexpr uint64_t kMaxJoinedBytes = 4 << 20;
// More of a kind are run alone, and so may be refused as others are (server/fair/turns.h).
constexpr size_t kMaxWaiting = 1024;
// How soon those are answered that nobody waits for any more.
constexpr absl::Duration kTick = absl::Milliseconds(5);
// A thread that came with a request starts so many runs at most, if each ends at once; the batcher's own goes on.
constexpr int kMaxRunsInARow = 16;

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

Batcher::Batcher(RunFn run, const BufferTable* buffers, Metrics* metrics, absl::Duration patience)
    : run_(std::move(run)), buffers_(buffers), metrics_(metrics), patience_(patience) {
  watch_ = std::thread([this] { SweepUntilStopped(); });
  pthread_setname_np(watch_.native_handle(), "kiln-batcher");
}

Batcher::~Batcher() {
  {
    absl::MutexLock lock(&mutex_);
    // Who has given the last answer may be on its way out of Drive().
    mutex_.Await(absl::Condition(+[](size_t* driven) { return *driven == 0; }, &driven_));
    KILN_CHECK(lines_.empty());
    stopping_ = true;
  }
  bell_.Ring();
  watch_.join();
}

bool Batcher::Add(BatchMember& member) {
  auto found = PartOf(member.program(), member.request(), *buffers_, member.control().account);
  if (!found.has_value()) return false;
  auto& [kind, part] = *found;
  if (part.bytes > kMaxBytes || ExpectedNs(*kind.program, part.rows) > kMaxRunNs) return false;
  LinePtr line;
  {
    absl::MutexLock lock(&mutex_);
    LinePtr& known = lines_[kind];
    if (known == nullptr) known = std::make_shared<Line>(kind);
    line = known;
    if (line->waiting.size() >= kMaxWaiting) return false;
    line->waiting.push_back({&member, std::move(part), SteadyNow()});
    ++waiting_;
    if (line->run != 0 || line->driven) {
      Wake();
      return true;
    }
    line->driven = true;
    ++driven_;
  }
  Drive(line);
  return true;
}

void Batcher::Drive(const LinePtr& line) {
  for (int started = 0;; ++started) {
    Gone gone;
    std::vector<Waiting> members;
    uint64_t number = 0;
    {
      absl::MutexLock lock(&mutex_);
      if (line->run != 0) {  // its end goes on
        line->driven = false;
        --driven_;
        return;
      }
      if (started == kMaxRunsInARow) {
        handed_.push_back(line);
        return bell_.Ring();
      }
      members = Next(*line, gone);
      if (members.empty() && gone.empty()) {
        lines_.erase(line->kind);
        line->driven = false;
        --driven_;
        return;
      }
      if (!members.empty()) {
        number = line->run = ++line->runs;
        line->since = SteadyNow();
      }
    }
    for (auto& [member, status] : gone) member->Fail(std::move(status));
    if (!members.empty()) Start(line, number, std::move(members));
  }
}

std::vector<Batcher::Waiting> Batcher::Next(Line& line, Gone& gone) {
  std::vector<Waiting> members;
  int64_t rows = 0;
  uint64_t bytes = 0;
  const StoredProgram& program = *line.kind.program;
  while (!line.waiting.empty() && members.size() < kMaxMembers) {
    Waiting& next = line.waiting.front();
    if (absl::Status wanted = next.member->control().Check(); !wanted.ok()) {
      gone.emplace_back(next.member, std::move(wanted));
    } else {
      const bool fits = !next.alone && next.part.rows <= program.rows->most - rows &&
                        bytes + next.part.bytes <= kMaxJoinedBytes &&
                        ExpectedNs(program, rows + next.part.rows) <= kMaxRunNs;
      if (!members.empty() && !fits) break;
      rows += next.part.rows;
      bytes += next.part.bytes;
      members.push_back(std::move(next));
    }
    line.waiting.pop_front();
    --waiting_;
    if (!members.empty() && members.back().alone) break;
  }
  return members;
}

void Batcher::Start(const LinePtr& line, uint64_t number, std::vector<Waiting> members) {
  if (members.size() == 1) {
    const int64_t rows = members[0].part.rows;
    const absl::Duration waited = SteadyNow() - members[0].since;
    return members[0].member->Run(waited, [this, line, number, rows](const ExecuteTiming* timing) {
      if (timing != nullptr) CountRun(*line->kind.program, rows, *timing);
      OnEnded(line, number);
    });
  }
  auto joined = std::make_shared<Joined>();
  joined->line = line;
  joined->number = number;
  joined->members = std::move(members);
  joined->begin = SteadyNow();
  std::vector<const BatchPart*> parts;
  // It goes on as long as it is in time for one of them.
  Control control = joined->members[0].member->control();
  control.cancelled = &joined->cancelled;
  for (const Waiting& waiting : joined->members) {
    parts.push_back(&waiting.part);
    control.deadline = std::max(control.deadline, waiting.member->control().deadline);
    // Callers that are not known pay alike.
    if (waiting.member->control().domain != control.domain) control.domain = MemoryDomain::kNobody;
  }
  Join(line->kind, parts, joined->run);
  joined->run.request.parts = &joined->parts;
  {
    absl::MutexLock lock(&mutex_);
    joined_.insert(joined.get());
    Wake();
  }
  run_(std::move(joined->run.request), control,
       [this, joined](absl::StatusOr<ExecuteResult> result) { Answer(*joined, std::move(result)); });
}

void Batcher::Answer(Joined& joined, absl::StatusOr<ExecuteResult> result) {
  {
    absl::MutexLock lock(&mutex_);
    joined_.erase(&joined);
    if (!result.ok()) {
      // One request's fault is not another's: each is run by itself. A run that was given up may have outlived its
      // line.
      LinePtr& known = lines_[joined.line->kind];
      if (known == nullptr) known = std::make_shared<Line>(joined.line->kind);
      if (known != joined.line) {
        joined.line = known;
        joined.number = 0;
      }
      waiting_ += joined.members.size();
      for (auto member = joined.members.rbegin(); member != joined.members.rend(); ++member) {
        member->alone = true;
        known->waiting.push_front(std::move(*member));
      }
      Wake();
    }
  }
  if (result.ok()) {
    CountRun(*joined.line->kind.program, joined.run.rows, result->timing);
    metrics_->batched_runs.Add(1);
    metrics_->batched_requests.Add(joined.members.size());
    metrics_->batch_rows.Observe(joined.run.rows);
  }
  // The next run is in the device's queue before these are answered; and with the last answer, this may end.
  OnEnded(joined.line, joined.number);
  if (result.ok()) Distribute(joined, *result);
}

void Batcher::Distribute(Joined& joined, ExecuteResult& result) {
  const StoredProgram& program = *joined.line->kind.program;
  result.charge.Release();
  int64_t first = 0;
  int batch = static_cast<int>(joined.members.size());
  for (const Waiting& waiting : joined.members) {
    const int64_t row = first;
    first += waiting.part.rows;
    if (absl::Status wanted = waiting.member->control().Check(); !wanted.ok()) {
      waiting.member->Fail(std::move(wanted));
      continue;
    }
    // Once as the result, and once more as the message that holds it.
    auto charge = Hold(waiting.member->control().account, Quota::kHostBytes, 2 * waiting.part.result_bytes);
    if (!charge.ok()) {
      waiting.member->Fail(std::move(charge).status());
      continue;
    }
    ExecuteResult part;
    part.program = joined.line->kind.program;
    part.timing = result.timing;
    part.batch = std::exchange(batch, 0);
    part.results = Share(*program.rows, result.results, joined.run.rows, row, waiting.part.rows);
    part.charge = *std::move(charge);
    if (NotedParts* parts = waiting.part.request->parts; parts != nullptr) parts->SetRunOf(joined.parts);
    waiting.member->Answer(std::move(part), joined.begin - waiting.since);
  }
}

void Batcher::OnEnded(const LinePtr& line, uint64_t number) {
  {
    absl::MutexLock lock(&mutex_);
    if (line->run == number) line->run = 0;
    // Drive() goes on, or somebody waits for another run.
    if (line->driven || line->run != 0) return;
    const auto known = lines_.find(line->kind);
    if (known == lines_.end() || known->second != line) return;  // it was given up, and is forgotten
    line->driven = true;
    ++driven_;
  }
  Drive(line);
}

void Batcher::Wake() {
  if (std::exchange(asleep_, false)) bell_.Ring();
}

void Batcher::Sweep(Gone& gone, std::vector<LinePtr>& lines) {
  const absl::Time now = SteadyNow();
  lines.swap(handed_);
  for (auto& [kind, line] : lines_) {
    for (auto waiting = line->waiting.begin(); waiting != line->waiting.end();) {
      const Control& control = waiting->member->control();
      if (!IsUnwanted(control, now)) {
        ++waiting;
        continue;
      }
      gone.emplace_back(waiting->member, control.Check());
      waiting = line->waiting.erase(waiting);
      --waiting_;
    }
    if (line->waiting.empty() || line->run == 0 || line->driven || now - line->since < patience_) continue;
    line->run = 0;
    line->driven = true;
    ++driven_;
    lines.push_back(line);
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
      idle = asleep_ = waiting_ == 0 && joined_.empty() && handed_.empty();
    }
    bell_.Wait(idle ? absl::InfiniteDuration() : kTick);
    Gone gone;
    std::vector<LinePtr> lines;
    {
      absl::MutexLock lock(&mutex_);
      Sweep(gone, lines);
    }
    for (auto& [member, status] : gone) member->Fail(std::move(status));
    for (const LinePtr& line : lines) Drive(line);
  }
}

}  // namespace kiln::server
