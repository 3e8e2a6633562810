// Requests for one model as runs: alone while nobody else asks, else all that came meanwhile as one.
//
// A request that comes while none of its kind runs is run at once. Those that come while one runs wait, and when it has
// ended all of them are run as one (rows.h). So nothing waits for a clock, and who is alone waits for nothing.
//
// Of one kind are requests of one payer with the same values of all variables but the number of rows: nobody pays for
// another's rows, and a run that fails for one payer's sake, such as for its quota, is no other's.
#ifndef KILN_SERVER_MODELS_BATCHER_H_
#define KILN_SERVER_MODELS_BATCHER_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/executions/requests.h"
#include "server/models/served_model.h"

namespace kiln::server {

// Of the requests that a run answers: how many there were, to the first of them; 0 to the others.
using BatchCallback = absl::AnyInvocable<void(absl::StatusOr<ExecuteResult>, int batch)>;

// Safe from any thread.
class Batcher : public std::enable_shared_from_this<Batcher> {
 public:
  // How a request is run: the engine's.
  using Run = std::function<void(ExecuteRequest, const Control&, ExecuteCallback)>;

  // How long a run is expected to take, in nanoseconds.
  using Expected = std::function<uint64_t()>;

  // `model` outlives what it runs: whoever asks holds it until the answer.
  Batcher(const ServedModel* model, Run run, Expected expected)
      : model_(model), run_(std::move(run)), expected_(std::move(expected)) {}

  // What `request` and `control` point to lives until `done` has been called: once, here or on a device's thread, and
  // it must not block. A request that has been cancelled or is too late when its turn comes is not run.
  void Add(ExecuteRequest request, const Control& control, BatchCallback done);

 private:
  struct Member {
    ExecuteRequest request;
    Control control;
    BatchCallback done;
    int64_t rows = 0;
    bool alone = false;  // it was in a run that failed, by its own fault or another's
  };
  using Members = std::vector<Member>;
  // A payer, and the values of variables.
  using Kind = std::pair<const Account*, std::vector<int64_t>>;
  // Of a kind of which one runs.
  struct Line {
    std::deque<Member> waiting;
    bool starting = false;  // Drive() is starting a run,
    bool ended = false;     // which has ended
  };
  struct Joined;

  // Starts the next run of the kind, and then the next, as long as they end at once.
  void Drive(const Kind& kind);
  // None: then the kind is forgotten. `refused` are those that nobody waits for any more, and why.
  Members Next(const Kind& kind, std::vector<std::pair<Member, absl::Status>>& refused);
  void Start(const Kind& kind, Members members);
  void Answer(const Kind& kind, Joined& joined, absl::StatusOr<ExecuteResult> result);
  void OnEnded(const Kind& kind);

  const ServedModel* const model_;
  const Run run_;
  const Expected expected_;
  absl::Mutex mutex_;
  std::map<Kind, Line> lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_MODELS_BATCHER_H_
