// Requests as runs: alone while nobody else asks for the same, else all that came meanwhile as one.
//
// A request that comes while none of its kind (join.h) runs is run at once. Those that come while one runs wait, and
// when it has ended all of them are run as one. So nothing waits for a clock, and who is alone waits for nothing. A run
// that itself waits for its turn holds nobody up for long: after a while, those that wait are run beside it.
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

// Safe from any thread. All that it has been given must have been answered before it is destroyed.
class Batcher {
 public:
  // How a request is run that names its program: as a member of none. Answers once, there or on a device's thread.
  using RunFn = std::function<void(ExecuteRequest, const Control&, ExecuteCallback)>;

  // `buffers`, which has the memory behind handles, and `metrics` outlive it. Nobody waits for a run for longer than
  // `patience`: it may itself wait for its turn, which may be another's fault.
  Batcher(RunFn run, const BufferTable* buffers, Metrics* metrics, absl::Duration patience = absl::Milliseconds(40));
  ~Batcher();

  // Takes a member, or says false if it is to be run alone, now. What members' requests and controls point to lives
  // until their answers. They are called here, on a device's thread, or on the batcher's own.
  bool Add(BatchMember& member);

 private:
  struct Waiting {
    BatchMember* member = nullptr;
    BatchPart part;
    absl::Time since;
    bool alone = false;  // it was in a run that failed, by its own fault or another's
  };
  // Of a kind.
  struct Line {
    explicit Line(const BatchKind& all) : kind(all) {}
    const BatchKind kind;
    std::deque<Waiting> waiting;
    // The run that those wait for, since it was started; 0: none.
    uint64_t run = 0, runs = 0;
    absl::Time since;
    bool driven = false;  // somebody is in Drive(), or will be
  };
  using LinePtr = std::shared_ptr<Line>;
  // A run of several.
  struct Joined {
    LinePtr line;
    uint64_t number = 0;
    std::vector<Waiting> members;
    JoinedRun run;
    NotedParts parts;
    absl::Time begin;
    std::atomic<bool> cancelled{false};  // nobody waits for it
  };
  using Gone = std::vector<std::pair<BatchMember*, absl::Status>>;

  // Starts the next run, and then the next, as long as they end at once and are not too many. The line is driven.
  void Drive(const LinePtr& line);
  // What runs next; none, and nobody gone: the line is forgotten.
  std::vector<Waiting> Next(Line& line, Gone& gone) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Start(const LinePtr& line, uint64_t number, std::vector<Waiting> members);
  // A run of several has ended, well or not.
  void Answer(Joined& joined, absl::StatusOr<ExecuteResult> result);
  static void Distribute(Joined& joined, ExecuteResult& result);
  void OnEnded(const LinePtr& line, uint64_t number);

  // As long as some wait or are run together: answers those that nobody waits for any more, stops runs that nobody
  // waits for, and lets none wait for a run that does not come on.
  void SweepUntilStopped();
  void Sweep(Gone& gone, std::vector<LinePtr>& lines) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // There is something to sweep.
  void Wake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const RunFn run_;
  const BufferTable* const buffers_;
  Metrics* const metrics_;
  const absl::Duration patience_;
  absl::Mutex mutex_;
  std::map<BatchKind, LinePtr> lines_ ABSL_GUARDED_BY(mutex_);
  size_t waiting_ ABSL_GUARDED_BY(mutex_) = 0;           // in all of them
  size_t driven_ ABSL_GUARDED_BY(mutex_) = 0;            // lines
  std::vector<LinePtr> handed_ ABSL_GUARDED_BY(mutex_);  // for the sweeping thread to drive
  std::set<Joined*> joined_ ABSL_GUARDED_BY(mutex_);
  bool asleep_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Bell bell_;
  std::thread watch_;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_BATCHING_BATCHER_H_
