// One Execute, from its arguments to its results.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_EXECUTION_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_EXECUTION_H_

#include <atomic>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/exec/executor.h"
#include "server/engine/executions/arguments.h"
#include "server/engine/executions/requests.h"
#include "server/engine/memory/buffer_table.h"

namespace kiln::server {

// Lives from its program's arrival until its callback has returned, and owns
// itself in between. Uploads, the run and downloads are entries of the device's
// queue, which keeps their order; no thread waits for any of them.
class Execution final : private runtime::RunStart {
 public:
  // `executor`, `collectives` and `buffers` outlive the execution.
  Execution(ExecuteRequest request, const Control& control, ExecuteCallback done, runtime::Executor* executor,
            runtime::collective::Collectives* collectives, BufferTable* buffers, uint64_t max_inline_bytes);

  // Exactly one of the two, once: it ends the execution's life sooner or later.
  void Start(ProgramStore::Program program, bool from_cache);
  void Fail(absl::Status status);

  const ExecuteRequest& request() const { return request_; }
  const Control& control() const { return control_; }
  ExecuteTiming& timing() { return result_.timing; }

 private:
  const v1::Signature& signature() const { return result_.program->program->signature(); }
  // Of a result, in this call.
  std::vector<int64_t> ShapeOf(size_t result) const {
    return result_.program->program->plan().results[result].shape.At(bound_.variables);
  }
  // Whether a result goes back by value.
  bool IsInline(size_t result) const;
  absl::Status CheckInlineResults(uint64_t& bytes) const;
  // Memory for results that have names already.
  absl::Status MakeNamedResults();
  // Whether what the run reads is healthy still, now that all before it has ended.
  absl::Status Begin() override;
  // Counts one queue entry as ended; the last one goes on.
  void Arrive(const absl::Status& status);
  void OnRun(absl::StatusOr<runtime::RunResult> run);
  void Download();
  void Finish();

  ExecuteRequest request_;
  const Control control_;
  ExecuteCallback done_;
  runtime::Executor* const executor_;
  runtime::collective::Collectives* const collectives_;
  BufferTable* const buffers_;
  const uint64_t max_inline_bytes_;

  BoundArguments bound_;
  Touched touched_;  // if this settles it
  std::atomic<bool> began_{false};
  absl::InlinedVector<runtime::hal::BufferSlice, 4> outputs_;  // one a result
  absl::InlinedVector<runtime::hal::BufferSlice, 4> named_;    // the same, made before the run
  ExecuteResult result_;
  absl::Time download_begin_;

  // Queue entries under way, in this stage: uploads and the run, or downloads.
  std::atomic<int> under_way_{0};
  bool downloading_ = false;
  absl::Mutex mutex_;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_EXECUTION_H_
