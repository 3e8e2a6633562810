// One run of a program on several devices.
#ifndef KILN_RUNTIME_EXEC_TASK_RUN_H_
#define KILN_RUNTIME_EXEC_TASK_RUN_H_

#include <chrono>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "runtime/collective/collective.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/program.h"
#include "runtime/exec/task_collective.h"

namespace kiln::runtime {

struct TaskRunResult {
  // One for each share of each result.
  std::vector<hal::BufferSlice> results;
  double device_seconds = 0;
  // In the order of the program's steps.
  std::vector<RanCollective> collectives;
};
using TaskRunCallback = absl::AnyInvocable<void(absl::StatusOr<TaskRunResult>)>;

// Owns itself from Start until its callback has returned. First its devices are asked
// whether they are ready (runtime/collective/probe.h); then each task goes to its device's
// queue when all that it waits for has ended; no thread waits. After a failure nothing
// more is submitted, and the callback gets the first one once all under way has ended.
// Parameters and scratch are kept until then.
class TaskRun {
 public:
  // Starts a run: `shares` has one slice for each share of each parameter. The errors of
  // Program::Check, OUT_OF_MEMORY, CANCELLED, DEADLINE_PASSED, PARTICIPANT_MISSING
  // and those of the segments go to `callback`. `collectives` outlives the run. Of
  // `options`, `results` is not looked at. What is submitted to the devices' queues
  // before Start comes before the run; for what comes after it, wait for the callback.
  static void Start(std::shared_ptr<const Program> program, absl::Span<const hal::BufferSlice> shares,
                    const RunOptions& options, Executor executor, collective::Collectives* collectives,
                    TaskRunCallback callback);

 private:
  TaskRun(std::shared_ptr<const Program> program, const RunOptions& options, Executor executor,
          collective::Collectives* collectives, TaskRunCallback callback);

  absl::Status MakeSlices(absl::Span<const hal::BufferSlice> shares);
  // All devices are ready, or why not.
  void Begin(absl::Status status);
  // Submits what is ready, and what becomes ready meanwhile. One thread at a time.
  void Drain();
  void Launch(uint32_t task);
  void LaunchSegment(const ProgramTask& task, uint32_t number);
  void LaunchCollective(const TaskCollective& task, uint32_t number);
  void Done(uint32_t task, const absl::Status& status);
  void MarkDone(uint32_t task) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish();

  const std::shared_ptr<const Program> program_;
  const hal::LaunchControl control_;
  RunStart* const start_;
  const std::vector<int64_t> variables_;
  Executor executor_;
  collective::Collectives* const collectives_;
  TaskRunCallback callback_;
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::vector<hal::BufferSlice> slices_;  // as the program's slices()
  std::vector<RanCollective> reports_;    // each written by its task

  absl::Mutex mutex_;
  std::vector<uint32_t> waits_ ABSL_GUARDED_BY(mutex_);
  // In the order of the program.
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready_ ABSL_GUARDED_BY(mutex_);
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_TASK_RUN_H_
