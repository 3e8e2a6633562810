// What becomes of a sequencer's steps and sequences while nobody asks: who has gone is let go, and what is idle ends.
//
// Most of it is called by `threads`, as time goes by. What is to be called later holds nothing: a model that is
// unloaded gives back its memory then and there.
//
// Tested by sequencer_ends_test.cc.
#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "server/models/sequences/sequencer.h"

namespace kiln::server {
namespace {

// How soon those are answered that nobody waits for any more.
constexpr absl::Duration kTick = absl::Milliseconds(5);
// A look at a line takes at most one part of so many of the time: it goes through all that wait, under everybody's
// lock.
constexpr int kMinPause = 20;

}  // namespace

void Sequencer::Leave(Line& line, std::unique_ptr<Step> step, absl::Status why, Gone& gone) {
  line.slots.Fail(step->ask, SteadyNow());
  gone.emplace_back(std::move(step), std::move(why));
}

void Sequencer::CallLater(WakeUps& thread, absl::Time when, const LinePtr& line,
                          void (Sequencer::*call)(const LinePtr&)) {
  thread.At(when, [weak = weak_from_this(), weak_line = std::weak_ptr<Line>(line), call] {
    const std::shared_ptr<Sequencer> self = weak.lock();
    const LinePtr there = weak_line.lock();
    if (self != nullptr && there != nullptr) (self.get()->*call)(there);
  });
}

void Sequencer::AskForTick(const LinePtr& line) {
  if (line->waiting.empty() && line->together == nullptr) return;
  if (std::exchange(line->tick_asked, true)) return;
  CallLater(options_.threads->watch, SteadyNow() + std::max(kTick, kMinPause * line->tick_took), line,
            &Sequencer::Tick);
}

void Sequencer::Tick(const LinePtr& line) {
  Gone gone;
  {
    std::vector<BufferTable::Record> unused;  // goes without the lock
    absl::MutexLock lock(&mutex_);
    const absl::Time begin = SteadyNow();
    line->tick_asked = false;
    for (auto each = line->waiting.begin(); each != line->waiting.end();) {
      absl::Status wanted = (*each)->control.Check();
      if (wanted.ok()) {
        ++each;
        continue;
      }
      Leave(*line, std::move(*each), std::move(wanted), gone);
      each = line->waiting.erase(each);
    }
    if (line->together != nullptr && std::none_of(line->together->steps.begin(), line->together->steps.end(),
                                                  [](const auto& step) { return step->control.Check().ok(); }))
      line->together->cancelled.store(true, std::memory_order_relaxed);
    if (!gone.empty()) AskForSweep(line, SteadyNow() + options_.idle);
    unused = TakePoolsIfUnused(*line);
    line->tick_took = SteadyNow() - begin;
    AskForTick(line);
  }
  Tell(gone);
}

void Sequencer::KeepOnly(const std::set<std::string, std::less<>>& tenants) {
  std::vector<LinePtr> gone;
  {
    absl::MutexLock lock(&mutex_);
    for (auto each = lines_.begin(); each != lines_.end();) {
      const auto& [account, line] = *each;
      if (account == nullptr || tenants.contains(account->name())) {
        ++each;
        continue;
      }
      line->forgotten = true;
      gone.push_back(line);
      each = lines_.erase(each);
    }
  }
  // Steps that a hold has made wait run now: nothing else keeps the line until then.
  for (const LinePtr& line : gone) GoOn(line);
}

void Sequencer::AskForEndOfHold(const LinePtr& line) {
  if (std::exchange(line->hold_asked, true)) return;
  CallLater(options_.threads->runs, line->hold_until, line, &Sequencer::EndHold);
}

void Sequencer::EndHold(const LinePtr& line) {
  {
    absl::MutexLock lock(&mutex_);
    line->hold_asked = false;
  }
  GoOn(line);
}

void Sequencer::AskForSweep(const LinePtr& line, absl::Time when) {
  if (line->slots.sequences() == 0 || when == absl::InfiniteFuture() || std::exchange(line->sweep_asked, true)) return;
  CallLater(options_.threads->watch, when, line, &Sequencer::EndIdle);
}

void Sequencer::EndIdle(const LinePtr& line) {
  std::vector<BufferTable::Record> unused;  // goes without the lock
  absl::MutexLock lock(&mutex_);
  line->sweep_asked = false;
  line->slots.EndIdle(SteadyNow());
  unused = TakePoolsIfUnused(*line);
  AskForSweep(line, line->slots.oldest() + options_.idle);
}

}  // namespace kiln::server
