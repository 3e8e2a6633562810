// One run of a program, from submission to callback, and the pool in which a
// program keeps its runs for the next time.
#ifndef KILN_RUNTIME_EXEC_EXECUTABLE_RUN_H_
#define KILN_RUNTIME_EXEC_EXECUTABLE_RUN_H_

#include <chrono>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/launch_times.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/hal/queue.h"
#include "runtime/observer.h"

namespace kiln::runtime {

// All vectors have their full length from the start, so that a reused ExecutableRun
// allocates nothing. It belongs to the pool while idle, and to itself from
// Submit until it goes back there.
class ExecutableRun final : public hal::Work {
 public:
  explicit ExecutableRun(const Plan& plan);

  // Arguments are checked. Copies the slices.
  void Submit(std::shared_ptr<LoadedExecutable> program, absl::Span<const hal::BufferSlice> parameters,
              const RunOptions& options, RuntimeObserver* observer, RunCallback callback);

  void Run() override;

 private:
  using Clock = std::chrono::steady_clock;

  absl::Status MakeResults();
  // Finds what is kept beside the parameters, and makes what is not.
  absl::Status Prepare();
  // Those of the steps, and of the preparations.
  absl::Status FillPointers();
  // Runs the steps; counts in `launches` those that ran.
  absl::Status Walk(uint32_t& launches);
  // Gives what references are left back, then itself to the pool.
  void Recycle();
  // What others made of the memory that this run writes is good no longer.
  void MarkChanged();

  std::vector<hal::BufferSlice> parameters_;
  std::vector<hal::BufferSlice> results_;
  std::vector<std::shared_ptr<hal::Buffer>> prepared_;
  std::vector<int64_t> variables_;
  Charge arena_charge_;
  std::vector<void*> pointers_;  // one for each operand of the plan; a variable's value in the place of one

  std::shared_ptr<LoadedExecutable> program_;
  hal::LaunchControl control_;
  RunStart* start_ = nullptr;
  RuntimeObserver* observer_ = nullptr;
  RunCallback callback_;
  Clock::time_point submitted_;
  LaunchTimes times_;
};

// Safe from any thread.
class ExecutableRunPool {
 public:
  explicit ExecutableRunPool(const Plan* plan) : plan_(plan) {}
  std::unique_ptr<ExecutableRun> Take();
  void Return(std::unique_ptr<ExecutableRun> run);

 private:
  const Plan* const plan_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<ExecutableRun>> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_EXECUTABLE_RUN_H_
