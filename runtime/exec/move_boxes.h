// Moves between devices' memory: the work of a transfer's task.
#ifndef KILN_RUNTIME_EXEC_MOVE_BOXES_H_
#define KILN_RUNTIME_EXEC_MOVE_BOXES_H_

#include <vector>

#include "absl/status/status.h"
#include "runtime/exec/program.h"
#include "runtime/hal/buffer.h"

namespace kiln::runtime {

// Does what `task`, a kTransfer, says with the run's slices, on this thread; all that it
// reads is there. A device that copies from the other does it, run by run; else memory that
// the host does not see is fetched, and what was written is put back, so that costs a
// journey for each box and its whole extent; what programs do with all
// of a value is a collective (multi_collective.h) and goes from process to process.
absl::Status MoveBoxes(const ProgramTask& task, const std::vector<hal::BufferSlice>& slices);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_MOVE_BOXES_H_
