// Runs the requests of sequences: each from the state that the one before left, and those that wait together as one.
//
// A tenant's sequences of a model have their state in pools, one for each of the model's states, in the device's memory
// and on the tenant's account: from the first run of its first sequence until the last has ended. So what the server
// keeps for somebody has an owner, a limit and an end. They are taken whole, not sequence by sequence: whoever has
// begun is not refused room for its state in the middle, though perhaps what a run takes for itself.
//
// Steps are batched continuously: one run of a tenant's at a time, and when it has ended all that have come meanwhile
// are the next, whichever sequences they are of and however far these have come; each is answered at once, and may
// leave or go on. The engine's batcher (server/engine/batching/batcher.h) does the same for requests without state, but
// joins no programs that write what they are given. One tenant's steps alone run together: who pays is one.
//
// Clients that each send the next step when they have the last answer would take turns: while one half runs, the other
// half waits, and so on for ever. So a run waits, for `queue_delay` at most, for the sequences of the run before, whose
// next steps are likely on their way. Who is alone never waits: nobody else was in that run.
//
// A run of several has a limit in bytes, since the thread that starts it copies its inputs and results, and a limit in
// time, as estimated from earlier runs, since later steps wait until it has ended. Steps beyond a limit are in the next
// run.
//
// Who has gone, or is too late, is answered within milliseconds while it waits; once it runs with others, when that run
// ends. A run that all of its steps have gone from is stopped.
#ifndef KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_H_
#define KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/account.h"
#include "runtime/hal/device.h"
#include "server/engine/executions/requests.h"
#include "server/metrics/metrics.h"
#include "server/models/sequences/sequence_slots.h"
#include "server/models/sequences/step_times.h"
#include "server/models/sequences/wake_ups.h"
#include "server/trace/parts.h"

namespace kiln::server {

// Safe from any thread. Those who ask hold it until they are answered.
class Sequencer : public std::enable_shared_from_this<Sequencer> {
 public:
  using RunFn = std::function<void(ExecuteRequest, const Control&, ExecuteCallback)>;
  struct Pool {
    uint32_t slot = 0;  // of the program
    v1::DType dtype = v1::DTYPE_UNSPECIFIED;
    std::vector<int64_t> row;  // the shape of one sequence's state
    uint64_t row_bytes = 0;
  };
  struct Options {
    RunFn run;
    Metrics* metrics = nullptr;  // outlives it
    runtime::hal::Device* device = nullptr;
    std::vector<Pool> pools;
    // Lists and the variable of pooled_graph.h. No `from`: the program reads no state.
    std::optional<uint32_t> from_slot;
    uint32_t row_of_slot = 0, batch_slot = 0;
    size_t max_sequences = 0;  // of each tenant
    size_t max_rows = 1;       // of a run, at most max_sequences
    // How many bytes the results of a request have, of what bounds those that are run together.
    std::function<uint64_t(const ExecuteRequest&)> result_bytes;
    absl::Duration idle, queue_delay;
    SequencerThreads* threads = nullptr;  // outlive it
  };
  explicit Sequencer(Options options);

  // Runs a request with one row of each input, as server/models/infer.h makes it: the program's arguments but for pools
  // and lists. `control.domain` is the caller's memory domain. What the request and `control` point to lives until
  // `done` has been called: once, here, on a device's thread or on one of `threads`. The errors of
  // SequenceSlots::Begin; those of memory, if the pools cannot be had; those of the run.
  void Run(ExecuteRequest request, SequenceAsk ask, const Control& control, ExecuteCallback done);

  // Forgets the sequences of tenants that are none of these, and gives back their memory. Requests that are under way
  // end as they would. A tenant that has gone may bring more, and so have sequences again, by calls that go on; so
  // these are those that were there before, too: whoever has a name anew begins with none.
  void KeepOnly(const std::set<std::string, std::less<>>& tenants);

  // Of all tenants.
  size_t sequences() const;

 private:
  struct Step {
    ExecuteRequest request;
    SequenceAsk ask;
    Control control;
    ExecuteCallback done;
    absl::Time since;
    std::vector<int64_t> variables;  // but for the number of rows: steps that run together have the same
    uint64_t sent = 0, bytes = 0;    // of its inputs; and with its results
    SequenceSlots::Move move;
    bool alone = false;  // it was in a run of several that failed
  };
  using Steps = std::vector<std::unique_ptr<Step>>;
  struct Joined;
  // A tenant's.
  struct Line {
    explicit Line(const Options& options) : slots(options.max_sequences, options.max_rows, options.idle) {}
    SequenceSlots slots;
    std::deque<std::unique_ptr<Step>> waiting;
    std::vector<BufferTable::Record> pools;  // none: nothing has been run yet
    bool running = false;
    bool driven = false;         // somebody is in Drive(), or will be: then none begins another
    bool forgotten = false;      // it is none of lines_ any more, and goes when its last request has been answered
    bool sweep_asked = false;    // EndIdle() will be called
    bool tick_asked = false;     // Tick() will be called
    absl::Duration tick_took;    // of the last
    Joined* together = nullptr;  // the run under way, if it is of several
    // Of the last run, those that may ask again; and until when they are waited for.
    std::set<std::string> expected;
    absl::Time hold_until = absl::InfinitePast();
    bool hold_asked = false;  // EndHold() will be called
  };
  using LinePtr = std::shared_ptr<Line>;
  // A run, of one step or several. What the request points to lives here, or in the steps.
  struct Joined {
    LinePtr line;
    Steps steps;
    ExecuteRequest request;
    std::vector<std::string> bytes;
    std::vector<std::vector<int64_t>> shapes;
    Charge charge;  // for the copies
    NotedParts parts;
    absl::Time begin;
    std::atomic<bool> cancelled{false};  // of several: nobody waits for it
  };
  using Gone = std::vector<std::pair<std::unique_ptr<Step>, absl::Status>>;

  // Starts the next run, and the next if that has ended at once, as long as these are not too many. The line is driven.
  void Drive(const LinePtr& line);
  // Whether a step may be in a run with this one, which then has so many rows and bytes.
  bool Fits(const Step& first, const Step& step, size_t rows, uint64_t bytes) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // What runs next; none, and nobody gone: there is nothing, or it is held.
  Steps Next(const LinePtr& line, Gone& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(const LinePtr& line, Steps steps);
  absl::Status MakePools(Line& line, Account* account);
  // Of a run of several, which copies what each has brought. QUOTA_EXCEEDED.
  static absl::Status PayForCopies(Joined& joined);
  void Join(Joined& joined) const;
  void OnEnded(const std::shared_ptr<Joined>& joined, absl::StatusOr<ExecuteResult> result);
  // A step has come, a run has ended, or one has been held long enough.
  void GoOn(const LinePtr& line);
  // Answers those that waited until nobody wanted them any more.
  void Tell(Gone& gone);

  // In sequencer_watch.cc. As long as some wait, or are run together: takes out those that nobody waits for, and stops
  // a run that nobody waits for.
  void Tick(const LinePtr& line);
  void AskForTick(const LinePtr& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a step out that is not wanted any more.
  void Leave(Line& line, std::unique_ptr<Step> step, absl::Status why, Gone& gone)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Has `thread` call it, unless the sequencer or the line has gone by then: what waits to be called holds neither.
  void CallLater(WakeUps& thread, absl::Time when, const LinePtr& line, void (Sequencer::*call)(const LinePtr&));
  // Asks for EndHold() when a run has been held long enough.
  void AskForEndOfHold(const LinePtr& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndHold(const LinePtr& line);
  void EndIdle(const LinePtr& line);
  void AskForSweep(const LinePtr& line, absl::Time when) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The memory of a line that has no sequence and no run, for the caller to give back without the lock.
  std::vector<BufferTable::Record> TakePoolsIfUnused(Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  mutable absl::Mutex mutex_;
  StepTimes times_ ABSL_GUARDED_BY(mutex_);  // of all tenants' runs
  // As many as there are tenants that have asked.
  std::map<const Account*, LinePtr> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_SEQUENCES_SEQUENCER_H_
