// Runs programs.
//
// A run is one entry of the device's queue: it makes the result buffers, fills
// the pointer table and launches step after step. What a run needs beside the
// buffers is kept by its program for the next run, and the arena by the device,
// so a warm run whose results are preallocated or in place allocates nothing and
// takes no lock but its own program's.
#ifndef KILN_RUNTIME_EXEC_EXECUTOR_H_
#define KILN_RUNTIME_EXEC_EXECUTOR_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/collective/collective.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/exec/sequence.h"
#include "runtime/hal/buffer.h"
#include "runtime/hal/module.h"
#include "runtime/observer.h"

namespace kiln::runtime {

// Asked once all that was submitted before has ended, and before the run changes any memory
// that was there: on the queue's thread, or where the run begins. Must not block.
class RunStart {
 public:
  virtual ~RunStart() = default;
  // An error ends the run, which has left all as it was.
  virtual absl::Status Begin() = 0;
};

struct RunOptions {
  // Looked at before the first step, between steps, and inside of a long kernel
  // where the device can. After a stop in the middle, written parameters are partly
  // written.
  hal::LaunchControl control;
  // Buffers for the results, one for each of the signature's (see
  // CheckResults), or empty: then the run allocates them. Read during Run only.
  absl::Span<const hal::BufferSlice> results;
  // The value of each of the signature's variables; CheckVariables (sizes.h) has
  // passed them. Read during Run only.
  VariableValues variables;
  // Null, or outlives the callback. A run that fails without having asked has left all as it was.
  RunStart* start = nullptr;
  // Of a sequence with programs for several devices; outlives the callback.
  collective::Collectives* collectives = nullptr;
};

struct RunResult {
  // One for each of the signature's results. Where it aliases a parameter, it
  // is the parameter's own slice. The array lives for the callback alone; its
  // elements may be moved out.
  absl::Span<hal::BufferSlice> results;
  // From Run() until the first step began, and from there to the last's end; the latter by
  // the device's clock where it has one (hal::Device::TakeLaunchSeconds).
  double queue_seconds = 0;
  double device_seconds = 0;
};

// Gets the outcome exactly once: on the submitting thread before Run returns, or
// on the queue's thread. Must not block. Captures of up to two pointers need no
// allocation.
using RunCallback = absl::AnyInvocable<void(absl::StatusOr<RunResult>)>;

// Stateless but for the observer (null for none), which must outlive all runs.
// Safe from any thread.
class Executor {
 public:
  explicit Executor(RuntimeObserver* observer = nullptr) : observer_(observer) {}

  // Never blocks for longer than a small program takes. Holds references to the
  // program and the slices' buffers until the callback has returned. Errors are
  // those of bind.h, OUT_OF_MEMORY, CANCELLED, and DEADLINE_PASSED.
  void Run(std::shared_ptr<LoadedExecutable> program, absl::Span<const hal::BufferSlice> parameters,
           const RunOptions& options, RunCallback callback);

  // The same for programs in a row. They are one entry of the queue; if one of them is for several
  // devices, each part is submitted when the one before it has ended. `options.variables` has the sequence's integers,
  // `options.results` nothing, and there are no results. A failure names the step; those before it have run.
  void Run(std::shared_ptr<const Sequence> sequence, absl::Span<const hal::BufferSlice> buffers,
           const RunOptions& options, RunCallback callback);

 private:
  RuntimeObserver* const observer_;
};

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_EXECUTOR_H_
