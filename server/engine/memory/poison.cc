#include "server/engine/memory/poison.h"

#include <algorithm>
#include <utility>

#include "runtime/hal/wanted_copy.h"

namespace kiln::server {
namespace {

bool Earlier(const CausePtr& a, const CausePtr& b) { return b == nullptr || a->command_id < b->command_id; }

}  // namespace

CausePtr Poison::In(uint64_t begin, uint64_t end) const {
  if (begin == end || !any_.load(std::memory_order_acquire)) return nullptr;
  absl::MutexLock lock(&mutex_);
  CausePtr first;
  for (const Range& range : ranges_) {
    if (range.begin < end && begin < range.end && Earlier(range.cause, first)) first = range.cause;
  }
  return first;
}

void Poison::MarkPoisoned(uint64_t begin, uint64_t end, const CausePtr& cause) {
  absl::MutexLock lock(&mutex_);
  std::vector<Range> ranges;
  const auto add = [&](uint64_t to) {  // the gap that begins at `begin`
    if (begin < to) ranges.push_back({begin, to, cause});
    begin = std::max(begin, to);
  };
  for (Range& range : ranges_) {
    add(std::min(end, range.begin));
    begin = std::max(begin, range.end);
    ranges.push_back(std::move(range));
  }
  add(end);
  Keep(std::move(ranges));
}

void Poison::Heal(uint64_t begin, uint64_t end) {
  if (!any_.load(std::memory_order_acquire)) return;
  absl::MutexLock lock(&mutex_);
  std::vector<Range> ranges;
  for (const Range& range : ranges_) {
    if (const uint64_t cut = std::min(range.end, begin); range.begin < cut)
      ranges.push_back({range.begin, cut, range.cause});
    if (const uint64_t rest = std::max(range.begin, end); rest < range.end)
      ranges.push_back({rest, range.end, range.cause});
  }
  Keep(std::move(ranges));
}

void Poison::Replace(const CausePtr& before, const CausePtr& cause) {
  absl::MutexLock lock(&mutex_);
  for (Range& range : ranges_) {
    if (range.cause == before) range.cause = cause;
  }
}

void Poison::Keep(std::vector<Range> ranges) {
  while (ranges.size() > kMaxPoisonedRanges) {
    size_t closest = 1;
    const auto gap = [&](size_t i) { return ranges[i].begin - ranges[i - 1].end; };
    for (size_t i = 2; i < ranges.size(); ++i) {
      if (gap(i) < gap(closest)) closest = i;
    }
    Range& before = ranges[closest - 1];
    before.end = ranges[closest].end;
    if (Earlier(ranges[closest].cause, before.cause)) before.cause = ranges[closest].cause;
    ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(closest));
  }
  ranges_ = std::move(ranges);
  any_.store(!ranges_.empty(), std::memory_order_release);
}

CausePtr Touched::Cause() const {
  CausePtr first;
  for (const Extent& input : inputs_) {
    if (input.poison == nullptr) continue;
    CausePtr cause = input.poison->In(input.begin, input.end);
    if (cause != nullptr && Earlier(cause, first)) first = std::move(cause);
  }
  return first;
}

absl::Status Touched::Check() const {
  const CausePtr cause = Cause();
  return cause == nullptr ? absl::OkStatus() : cause->status;
}

void Touched::MarkPoisoned(const CausePtr& cause) const {
  for (const Output& output : outputs_) {
    if (output.extent.poison != nullptr)
      output.extent.poison->MarkPoisoned(output.extent.begin, output.extent.end, cause);
  }
}

void Touched::MarkMadePoisoned(const CausePtr& cause) const {
  for (const Output& output : outputs_) {
    if (output.made && output.extent.poison != nullptr)
      output.extent.poison->MarkPoisoned(output.extent.begin, output.extent.end, cause);
  }
}

void Touched::Replace(const CausePtr& before, const CausePtr& cause) const {
  for (const Output& output : outputs_) {
    if (output.made && output.extent.poison != nullptr) output.extent.poison->Replace(before, cause);
  }
}

void Touched::Heal() const {
  for (const Output& output : outputs_) {
    if (output.whole && output.extent.poison != nullptr)
      output.extent.poison->Heal(output.extent.begin, output.extent.end);
  }
}

absl::Status Touched::Finish(const absl::Status& status) const {
  if (runtime::hal::IsPartly(status)) {
    const absl::Status failure = runtime::hal::WithoutNote(status);
    Settle(failure);
    return failure;
  }
  if (!status.ok()) return status;
  const CausePtr cause = Cause();
  if (cause == nullptr) {
    Heal();
    return absl::OkStatus();
  }
  MarkPoisoned(cause);
  return cause->status;
}

void Touched::Settle(const absl::Status& status) const {
  if (status.ok()) return Heal();
  MarkPoisoned(std::make_shared<const server::Cause>(server::Cause{0, "", status}));
}

}  // namespace kiln::server
