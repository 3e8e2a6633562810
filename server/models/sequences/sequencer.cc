// When steps come, wait and are chosen; sequencer_runs.cc has the runs that they make.
//
// Tested by sequencer_test.cc.
#include "server/models/sequences/sequencer.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "server/metrics/count.h"

namespace kiln::server {
namespace {

// Inputs and results of a run of several. A step that has more is run alone, which copies nothing.
constexpr uint64_t kMaxJoinedBytes = 16 << 20;
// Several together may be expected to take so long, or twice as long as one of them alone: where that is long already,
// as with a large model, the others add little, and to run one after the other would cost each far more.
constexpr uint64_t kMaxRunNs = 20'000'000;
// A short run is made by the thread that starts it, and may have ended when that goes on. So many in a row, and the
// rest is for the thread that is there for it, where one tenant's line waits for another's: else one that always has
// the next step in time would keep a thread which has come with a request, or from a device, for ever.
constexpr int kMaxRunsInARow = 16;
// Steps that are looked at for a run, for each row that it may have. Others may be in front of those that fit: of other
// sizes, or larger. To look at all of thousands for each run, other tenants would wait.
constexpr size_t kMaxLookedAt = 4;

}  // namespace

Sequencer::Sequencer(Options options) : options_(std::move(options)) {}

void Sequencer::Run(ExecuteRequest request, SequenceAsk ask, const Control& control, ExecuteCallback done) {
  auto step = std::make_unique<Step>();
  for (const Argument& argument : request.arguments) {
    const auto* value = std::get_if<int64_t>(&argument.value);
    if (value != nullptr && argument.slot != options_.batch_slot) step->variables.push_back(*value);
    if (const auto* tensor = std::get_if<TensorView>(&argument.value); tensor != nullptr)
      step->sent += tensor->data.size();
  }
  step->bytes = step->sent + options_.result_bytes(request);
  step->request = std::move(request);
  step->ask = std::move(ask);
  step->control = control;
  step->since = SteadyNow();
  LinePtr line;
  absl::Status begun;
  {
    absl::MutexLock lock(&mutex_);
    LinePtr& known = lines_[control.account];
    if (known == nullptr) known = std::make_shared<Line>(options_);
    line = known;
    begun = line->slots.Begin(step->ask, step->since);
    if (begun.ok()) {
      line->expected.erase(step->ask.id);
      step->done = std::move(done);
      line->waiting.push_back(std::move(step));
    }
  }
  if (!begun.ok()) return done(std::move(begun));
  GoOn(line);
}

void Sequencer::GoOn(const LinePtr& line) {
  {
    absl::MutexLock lock(&mutex_);
    if (line->running || line->driven) return AskForTick(line);
    line->driven = true;
  }
  Drive(line);
}

void Sequencer::Drive(const LinePtr& line) {
  for (int started = 0;; ++started) {
    std::vector<BufferTable::Record> unused;
    Gone gone;
    Steps steps;
    {
      absl::MutexLock lock(&mutex_);
      if (started >= kMaxRunsInARow && !line->running && !line->waiting.empty()) {
        // It holds both: of a line that is forgotten, nobody else does.
        return options_.threads->runs.At(SteadyNow(), [self = shared_from_this(), line] { self->Drive(line); });
      }
      if (!line->running) {
        steps = Next(line, gone);
        line->running = !steps.empty();
      }
      // Who ends the run goes on, or who brings the next step.
      if (steps.empty() && gone.empty()) line->driven = false;
      if (steps.empty()) unused = TakePoolsIfUnused(*line);
      AskForTick(line);
    }
    if (steps.empty() && gone.empty()) return;
    unused.clear();
    Tell(gone);
    if (!steps.empty()) Start(line, std::move(steps));
  }
}

void Sequencer::Tell(Gone& gone) {
  for (auto& [step, status] : gone) {
    CountEnded(*options_.metrics, status, Place::kQueue);
    step->done(std::move(status));
  }
}

bool Sequencer::Fits(const Step& first, const Step& step, size_t rows, uint64_t bytes) const {
  if (first.alone || step.alone || step.variables != first.variables || bytes > kMaxJoinedBytes) return false;
  const std::optional<uint64_t> alone = times_.Expected(first.variables, 1),
                                together = times_.Expected(first.variables, static_cast<int64_t>(rows));
  // As long as no run has told how long one takes, each is by itself.
  return alone.has_value() && together.has_value() && *together <= std::max(kMaxRunNs, 2 * *alone);
}

Sequencer::Steps Sequencer::Next(const LinePtr& line, Gone& gone) {
  Steps steps;
  std::deque<std::unique_ptr<Step>>& waiting = line->waiting;
  if (waiting.empty()) return steps;
  if (!line->forgotten && !line->expected.empty() && SteadyNow() < line->hold_until &&
      waiting.size() < options_.max_rows) {
    AskForEndOfHold(line);
    return steps;
  }
  uint64_t bytes = 0;
  size_t left = kMaxLookedAt * options_.max_rows;
  for (auto each = waiting.begin(); each != waiting.end() && steps.size() < options_.max_rows && left > 0; --left) {
    Step& step = **each;
    if (absl::Status wanted = step.control.Check(); !wanted.ok()) {
      Leave(*line, std::move(*each), std::move(wanted), gone);
      each = waiting.erase(each);
      continue;
    }
    if (!steps.empty() && !Fits(*steps[0], step, steps.size() + 1, bytes + step.bytes)) {
      ++each;
      continue;
    }
    bytes += step.bytes;
    step.move = line->slots.Take(step.ask);
    steps.push_back(std::move(*each));
    each = waiting.erase(each);
  }
  if (!gone.empty()) AskForSweep(line, SteadyNow() + options_.idle);
  return steps;
}

std::vector<BufferTable::Record> Sequencer::TakePoolsIfUnused(Line& line) {
  std::vector<BufferTable::Record> unused;
  if (!line.running && line.waiting.empty() && line.slots.sequences() == 0) unused.swap(line.pools);
  return unused;
}

size_t Sequencer::sequences() const {
  absl::MutexLock lock(&mutex_);
  size_t sequences = 0;
  for (const auto& [account, line] : lines_) sequences += line->slots.sequences();
  return sequences;
}

}  // namespace kiln::server
