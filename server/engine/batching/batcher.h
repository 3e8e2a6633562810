// Requests as runs: alone while nobody else asks for the same, else all that came meanwhile as one.
//
// A request that comes while none of its kind (join.h) runs is run at once. Those that come while one runs wait, and
// when it has ended all of them are run as one. So nothing waits for a clock, and who is alone waits for nothing.
//
// All of a kind have one payer: nobody pays for another's rows, and a run that fails for one payer's sake, such as for
// its quota, is no other's. A run of several that fails is done again for each of them alone.
#ifndef KILN_SERVER_ENGINE_BATCHING_BATCHER_H_
#define KILN_SERVER_ENGINE_BATCHING_BATCHER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "server/engine/batching/batch_member.h"
#include "server/engine/batching/join.h"
#include "server/metrics/metrics.h"

namespace kiln::server {

// Safe from any thread. All that it has been given must have ended before it is destroyed.
class Batcher {
 public:
  // How a request is run that names its program: as a member of none. Answers once, there or on a device's thread.
  using RunFn = std::function<void(ExecuteRequest, const Control&, ExecuteCallback)>;

  // `metrics` outlives it.
  Batcher(RunFn run, Metrics* metrics);
  ~Batcher();

  // Takes a member, or says false if it is to be run alone, now. What members' requests and controls point to lives
  // until their answers. They are called here, on a device's thread, or on one that answers those that nobody waits for
  // any more while they wait.
  bool Add(BatchMember& member);

 private:
  struct Waiting {
    BatchMember* member = nullptr;
    BatchPart part;
    absl::Time since;
    bool alone = false;  // it was in a run that failed, by its own fault or another's
  };
  // Of a kind of which one runs.
  struct Line {
    std::deque<Waiting> waiting;
    bool starting = false;  // Drive() is starting a run,
    bool ended = false;     // which has ended
  };
  // A run of several.
  struct Joined {
    std::vector<Waiting> members;
    JoinedRun run;
    CallParts parts;
    absl::Time begin;
    std::atomic<bool> cancelled{false};  // nobody waits for it
  };
  using Gone = std::vector<std::pair<BatchMember*, absl::Status>>;

  // Starts the next run of the kind, and then the next, as long as they end at once.
  void Drive(const BatchKind& kind);
  // None, and nobody gone: then the kind is forgotten.
  std::vector<Waiting> Next(const BatchKind& kind, Gone& gone);
  void Start(const BatchKind& kind, std::vector<Waiting> members);
  // Its run has ended, well or not.
  void Answer(const BatchKind& kind, Joined& joined, absl::StatusOr<ExecuteResult> result);
  static void Distribute(const BatchKind& kind, Joined& joined, ExecuteResult& result);
  void OnEnded(const BatchKind& kind);

  // Looks for those that nobody waits for any more, as long as some wait or are run together.
  void SweepUntilStopped();
  void Sweep(Gone& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There is something to sweep.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RunFn run_;
  Metrics* const metrics_;
  absl::Mutex mutex_;
  std::map<BatchKind, Line> lines_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;  // in all of them
  std::set<Joined*> joined_ ABSL_GUARDED_BY(mutex_);
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Bell bell_;
  std::thread watch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_BATCHING_BATCHER_H_
