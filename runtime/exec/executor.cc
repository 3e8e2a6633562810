#include "runtime/exec/executor.h"

#include <utility>

#include "runtime/exec/bind.h"
#include "runtime/exec/execution.h"

namespace kiln::runtime {

void Executor::Run(std::shared_ptr<Program> program, absl::Span<const hal::BufferSlice> parameters,
                   const RunOptions& options, RunCallback callback) {
  absl::Status status = CheckParameters(*program, parameters);
  if (status.ok() && !options.results.empty()) status = CheckResults(*program, parameters, options.results);
  if (!status.ok()) return callback(std::move(status));
  // From here on the run owns itself; see Execution.
  Execution* const execution = program->pool_->Take().release();
  execution->Submit(std::move(program), parameters, options, observer_, std::move(callback));
}

}  // namespace kiln::runtime
