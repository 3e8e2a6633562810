// What the batcher (batcher.h) asks of a request, which an Execution is.
#ifndef KILN_SERVER_ENGINE_BATCHING_BATCH_MEMBER_H_
#define KILN_SERVER_ENGINE_BATCHING_BATCH_MEMBER_H_

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/executions/requests.h"

namespace kiln::server {

// A request whose program has been found.
class BatchMember {
 public:
  virtual const ProgramStore::Program& program() const = 0;
  virtual ExecuteRequest& request() = 0;
  virtual const Control& control() const = 0;

  // One of these, once; it ends the member's life, sooner or later. It has waited so long for its run, or for the one
  // that gave the result.
  // Before the answer, `ended` is called; with the timing if it went well.
  virtual void Run(absl::Duration waited, absl::AnyInvocable<void(const ExecuteTiming*)> ended) = 0;
  virtual void Answer(ExecuteResult result, absl::Duration waited) = 0;
  virtual void Fail(absl::Status status) = 0;

 protected:
  ~BatchMember() = default;
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_BATCHING_BATCH_MEMBER_H_
