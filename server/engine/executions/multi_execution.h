// One Execute of a program for several devices, from its arguments to its results.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_MULTI_EXECUTION_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_MULTI_EXECUTION_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "runtime/collective/collective.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/multi_program.h"
#include "runtime/exec/multi_run.h"
#include "server/engine/executions/multi_arguments.h"
#include "server/engine/executions/requests.h"
#include "server/engine/memory/buffer_table.h"

namespace kiln::server {

// Owns itself from Start until its callback has returned. Stage by stage: uploads, the
// run, downloads; a stage begins when the one before has ended, on the thread that ended
// it. Uploads go into queues before the run does, so the run sees them.
class MultiExecution final : private runtime::RunStart {
 public:
  // `result` has the program and what is known of the timing. `executor`, `collectives` and `buffers`
  // outlive the execution. The errors of multi_arguments.h and of runtime/exec, and
  // OUT_OF_MEMORY for inline results of more than `max_inline_bytes`.
  static void Start(const ExecuteRequest& request, const Control& control, ExecuteCallback done,
                    runtime::Executor executor, runtime::collective::Collectives* collectives, BufferTable* buffers,
                    uint64_t max_inline_bytes, ExecuteResult result);

 private:
  MultiExecution(const ExecuteRequest& request, const Control& control, ExecuteCallback done,
                 runtime::Executor executor, runtime::collective::Collectives* collectives, BufferTable* buffers,
                 ExecuteResult result);

  const runtime::MultiProgram& program() const { return *bound_.program; }
  const v1::Signature& signature() const { return program().signature(); }
  bool IsInline(size_t result) const;
  absl::Status CheckInlineResults(uint64_t max_inline_bytes) const;
  absl::Status CheckNames() const;
  // Whether what the run reads is healthy still, now that its devices have come so far.
  absl::Status Begin() override;
  void Upload();
  void OnRun(absl::StatusOr<runtime::MultiRunResult> run);
  void Download();
  void Finish();
  absl::Status FileResults();
  // Counts one entry of a queue as ended; after the last one `next` goes on.
  void Arrive(const absl::Status& status, void (MultiExecution::*next)());
  void End(absl::Status status);

  const ExecuteRequest request_;
  const Control control_;
  ExecuteCallback done_;
  runtime::Executor executor_;
  runtime::collective::Collectives* const collectives_;
  BufferTable* const buffers_;
  ExecuteResult result_;

  MultiArguments bound_;
  Touched touched_;  // if this settles it
  std::atomic<bool> began_{false};
  std::vector<std::vector<runtime::hal::BufferSlice>> outputs_;  // of a result, share by share
  std::vector<std::vector<std::string>> downloads_;              // likewise
  absl::Time download_begin_;

  std::atomic<int> under_way_{0};
  absl::Mutex mutex_;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_MULTI_EXECUTION_H_
