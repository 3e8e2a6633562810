#include "runtime/exec/executor.h"

#include <utility>

#include "base/check.h"
#include "runtime/exec/bind.h"
#include "runtime/exec/executable_run.h"
#include "runtime/exec/sequence_run.h"

namespace kiln::runtime {

void Executor::Run(std::shared_ptr<LoadedExecutable> program, absl::Span<const hal::BufferSlice> parameters,
                   const RunOptions& options, RunCallback callback) {
  const Plan& plan = program->plan();
  KILN_CHECK(options.variables.size() == plan.variables.size());
  absl::Status status = CheckParameters(*program, parameters, options.variables);
  if (status.ok() && !options.results.empty())
    status = CheckResults(*program, parameters, options.results, options.variables);
  if (!status.ok()) return callback(std::move(status));
  // From here on the run owns itself; see ExecutableRun.
  ExecutableRun* const run = program->pool_->Take().release();
  run->Submit(std::move(program), parameters, options, observer_, std::move(callback));
}

void Executor::Run(std::shared_ptr<const Sequence> sequence, absl::Span<const hal::BufferSlice> buffers,
                   const RunOptions& options, RunCallback callback) {
  if (absl::Status status = sequence->Check(buffers, options.variables); !status.ok()) {
    return callback(std::move(status));
  }
  SequenceRun::Submit(std::move(sequence), buffers, options, observer_, std::move(callback));
}

}  // namespace kiln::runtime
