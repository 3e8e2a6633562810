// When steps come, wait and are chosen; sequencer_runs.cc has the runs that they make.
//
// Tested by sequencer_test.cc.
#include "server/models/sequences/sequencer.h"

#include <variant>

#include "base/clock.h"
#include "server/metrics/count.h"

namespace kiln::server {

Sequencer::Sequencer(Options options) : options_(std::move(options)) {}

void Sequencer::Run(ExecuteRequest request, SequenceAsk ask, const Control& control, ExecuteCallback done) {
  auto step = std::make_unique<Step>();
  for (const Argument& argument : request.arguments) {
    const auto* value = std::get_if<int64_t>(&argument.value);
    if (value != nullptr && argument.slot != options_.batch_slot) step->variables.push_back(*value);
  }
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
  for (;;) {
    std::vector<BufferTable::Record> unused;
    Gone gone;
    Steps steps;
    {
      absl::MutexLock lock(&mutex_);
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

Sequencer::Steps Sequencer::Next(const LinePtr& line, Gone& gone) {
  Steps steps;
  std::deque<std::unique_ptr<Step>>& waiting = line->waiting;
  if (waiting.empty()) return steps;
  if (!line->expected.empty() && SteadyNow() < line->hold_until && waiting.size() < options_.max_rows) {
    AskForEndOfHold(line);
    return steps;
  }
  for (auto each = waiting.begin(); each != waiting.end() && steps.size() < options_.max_rows;) {
    Step& step = **each;
    if (absl::Status wanted = step.control.Check(); !wanted.ok()) {
      Leave(*line, std::move(*each), std::move(wanted), gone);
      each = waiting.erase(each);
      continue;
    }
    const bool fits = steps.empty() || (!step.alone && !steps[0]->alone && step.variables == steps[0]->variables);
    if (!fits) {
      ++each;
      continue;
    }
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
