#include "server/models/batcher.h"

#include <algorithm>

#include "base/account.h"
#include "server/models/rows.h"

namespace kiln::server {
namespace {

// Above these a run of one's own costs little more than its part of a larger one, and waiting for another's is dear.
constexpr uint64_t kMaxInputBytes = 256 << 10;
constexpr uint64_t kMaxRunNs = 20'000'000;
// Of one run.
constexpr size_t kMaxMembers = 256;

}  // namespace

// A run of several.
struct Batcher::Joined {
  Members members;
  JoinedRun run;
  int64_t rows = 0;
};

void Batcher::Add(ExecuteRequest request, const Control& control, BatchCallback done) {
  if (!model_->rows.has_value() || InputBytesOf(request) > kMaxInputBytes || expected_() > kMaxRunNs) {
    run_(std::move(request), control,
         [done = std::move(done)](absl::StatusOr<ExecuteResult> result) mutable { done(std::move(result), 1); });
    return;
  }
  const Kind kind(control.account, KindOf(*model_, request));
  Member member{std::move(request), control, std::move(done)};
  member.rows = RowsOf(*model_, member.request);
  {
    absl::MutexLock lock(&mutex_);
    const auto [line, is_first] = lines_.try_emplace(kind);
    line->second.waiting.push_back(std::move(member));
    if (!is_first) return;
  }
  Drive(kind);
}

void Batcher::Drive(const Kind& kind) {
  const auto self = shared_from_this();  // the last answer may let the model go
  for (;;) {
    std::vector<std::pair<Member, absl::Status>> refused;
    Members members = Next(kind, refused);
    const bool none = members.empty() && refused.empty();
    for (auto& [member, status] : refused) member.done(std::move(status), 1);
    if (none) return;
    if (members.empty()) continue;
    Start(kind, std::move(members));
    absl::MutexLock lock(&mutex_);
    Line& line = lines_.find(kind)->second;
    line.starting = false;
    if (!line.ended) return;  // OnEnded() goes on
  }
}

Batcher::Members Batcher::Next(const Kind& kind, std::vector<std::pair<Member, absl::Status>>& refused) {
  Members members;
  int64_t rows = 0;
  absl::MutexLock lock(&mutex_);
  const auto found = lines_.find(kind);
  Line& line = found->second;
  while (!line.waiting.empty() && members.size() < kMaxMembers) {
    Member& next = line.waiting.front();
    if (absl::Status wanted = next.control.Check(); !wanted.ok()) {
      refused.emplace_back(std::move(next), std::move(wanted));
    } else {
      if (!members.empty() && (next.alone || rows + next.rows > model_->variables[*model_->rows].greatest)) break;
      rows += next.rows;
      members.push_back(std::move(next));
    }
    line.waiting.pop_front();
    if (!members.empty() && members.back().alone) break;
  }
  if (members.empty() && refused.empty()) {
    lines_.erase(found);
  } else if (!members.empty()) {
    line.starting = true;
    line.ended = false;
  }
  return members;
}

void Batcher::Start(const Kind& kind, Members members) {
  if (members.size() == 1) {
    auto only = std::make_shared<Member>(std::move(members[0]));
    run_(std::move(only->request), only->control,
         [self = shared_from_this(), kind, only](absl::StatusOr<ExecuteResult> result) {
           only->done(std::move(result), 1);
           self->OnEnded(kind);
         });
    return;
  }
  auto joined = std::make_shared<Joined>();
  joined->members = std::move(members);
  std::vector<const ExecuteRequest*> requests;
  // It goes on as long as it is in time for one of them.
  Control control = joined->members[0].control;
  control.cancelled = nullptr;
  for (const Member& member : joined->members) {
    requests.push_back(&member.request);
    joined->rows += member.rows;
    control.deadline = std::max(control.deadline, member.control.deadline);
  }
  Join(*model_, requests, joined->run);
  run_(std::move(joined->run.request), control,
       [self = shared_from_this(), kind, joined](absl::StatusOr<ExecuteResult> result) {
         self->Answer(kind, *joined, std::move(result));
         self->OnEnded(kind);
       });
}

void Batcher::Answer(const Kind& kind, Joined& joined, absl::StatusOr<ExecuteResult> result) {
  if (!result.ok()) {
    // One request's fault is not another's: each is run by itself.
    absl::MutexLock lock(&mutex_);
    Line& line = lines_.find(kind)->second;
    for (auto member = joined.members.rbegin(); member != joined.members.rend(); ++member) {
      member->alone = true;
      line.waiting.push_front(std::move(*member));
    }
    return;
  }
  const auto all = static_cast<uint64_t>(joined.rows);
  std::vector<absl::StatusOr<ExecuteResult>> parts;
  int64_t first = 0;
  for (const Member& member : joined.members) {
    ExecuteResult part = PartOf(*model_, *result, joined.rows, first, member.rows);
    first += member.rows;
    absl::StatusOr<Charge> charge = Hold(member.control.account, Quota::kHostBytes,
                                         result->charge.amount() * static_cast<uint64_t>(member.rows) / all);
    if (!charge.ok()) {
      parts.emplace_back(charge.status());
      continue;
    }
    part.charge = *std::move(charge);
    parts.emplace_back(std::move(part));
  }
  result->charge.Release();
  int batch = static_cast<int>(joined.members.size());
  for (size_t i = 0; i < parts.size(); ++i) joined.members[i].done(std::move(parts[i]), std::exchange(batch, 0));
}

void Batcher::OnEnded(const Kind& kind) {
  {
    absl::MutexLock lock(&mutex_);
    Line& line = lines_.find(kind)->second;
    line.ended = true;
    if (line.starting) return;  // Drive() goes on
  }
  Drive(kind);
}

}  // namespace kiln::server
