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
    if (line->running || line->driven) return;
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
      if (!line->running) steps = Next(line, gone);
      if (steps.empty() && gone.empty()) {
        // Who ends the run goes on, or who brings the next step.
        line->driven = false;
        unused = TakePoolsIfUnused(*line);
        return;
      }
      line->running = !steps.empty();
    }
    for (auto& [step, status] : gone) {
      CountEnded(*options_.metrics, status, Place::kQueue);
      step->done(std::move(status));
    }
    if (!steps.empty()) Start(line, std::move(steps));
  }
}

Sequencer::Steps Sequencer::Next(const LinePtr& line, Gone& gone) {
  Steps steps;
  std::deque<std::unique_ptr<Step>>& waiting = line->waiting;
  if (waiting.empty()) return steps;
  const absl::Time now = SteadyNow();
  if (!line->expected.empty() && now < line->hold_until && waiting.size() < options_.max_rows) {
    if (!std::exchange(line->hold_asked, true)) {
      // What is called later keeps nothing alive: a model that is unloaded gives back its memory now.
      options_.wake_ups->At(line->hold_until, [weak = weak_from_this(), weak_line = std::weak_ptr<Line>(line)] {
        const std::shared_ptr<Sequencer> self = weak.lock();
        const LinePtr held = weak_line.lock();
        if (self == nullptr || held == nullptr) return;
        {
          absl::MutexLock lock(&self->mutex_);
          held->hold_asked = false;
        }
        self->GoOn(held);
      });
    }
    return steps;
  }
  for (auto each = waiting.begin(); each != waiting.end() && steps.size() < options_.max_rows;) {
    Step& step = **each;
    if (absl::Status wanted = step.control.Check(); !wanted.ok()) {
      line->slots.Fail(step.ask, now);
      AskForSweep(line, now + options_.idle);
      gone.emplace_back(std::move(*each), std::move(wanted));
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
  return steps;
}

std::vector<BufferTable::Record> Sequencer::TakePoolsIfUnused(Line& line) {
  std::vector<BufferTable::Record> unused;
  if (!line.running && line.waiting.empty() && line.slots.sequences() == 0) unused.swap(line.pools);
  return unused;
}

void Sequencer::AskForSweep(const LinePtr& line, absl::Time when) {
  if (line->slots.sequences() == 0 || when == absl::InfiniteFuture() || std::exchange(line->sweep_asked, true)) return;
  options_.wake_ups->At(when, [weak = weak_from_this(), weak_line = std::weak_ptr<Line>(line)] {
    const std::shared_ptr<Sequencer> self = weak.lock();
    const LinePtr swept = weak_line.lock();
    if (self != nullptr && swept != nullptr) self->EndIdle(swept);
  });
}

void Sequencer::EndIdle(const LinePtr& line) {
  std::vector<BufferTable::Record> unused;  // goes without the lock
  absl::MutexLock lock(&mutex_);
  line->sweep_asked = false;
  line->slots.EndIdle(SteadyNow());
  if (!line->driven) unused = TakePoolsIfUnused(*line);
  AskForSweep(line, line->slots.oldest() + options_.idle);
}

size_t Sequencer::sequences() const {
  absl::MutexLock lock(&mutex_);
  size_t sequences = 0;
  for (const auto& [account, line] : lines_) sequences += line->slots.sequences();
  return sequences;
}

}  // namespace kiln::server
