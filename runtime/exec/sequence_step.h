// One step of a sequence: what its program takes, in whichever form the program is. Tested by sequence_test.
#ifndef KILN_RUNTIME_EXEC_SEQUENCE_STEP_H_
#define KILN_RUNTIME_EXEC_SEQUENCE_STEP_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kiln/v1/error.pb.h"
#include "runtime/exec/sequence.h"

namespace kiln::runtime {

using StepValues = absl::InlinedVector<int64_t, 4>;

// Its memories: parameters or, of a program for several devices, their shares.
inline const std::vector<PlanParameter>& TakenBy(const SequenceStep& step) {
  return step.multi != nullptr ? step.multi->taken() : step.program->plan().parameters;
}
inline const std::vector<PlanVariable>& VariablesOf(const SequenceStep& step) {
  return step.multi != nullptr ? step.multi->variables() : step.program->plan().variables;
}

// What its variables are worth in a run with these integers.
StepValues ValuesOf(const SequenceStep& step, absl::Span<const int64_t> integers);
// Whether that depends on the run's integers.
bool IsNumbered(const SequenceStep& step);
bool HasSymbolicSizes(const SequenceStep& step);

// CheckVariables of the step's program.
absl::Status CheckStepVariables(const SequenceStep& step, const StepValues& values);
// Whether a step writes no bytes that it also has under another name, in the memory
// of these buffers or, without any, in buffers that are strangers to each other.
absl::Status CheckStepSharing(const SequenceStep& step, const StepValues& values,
                              absl::Span<const hal::BufferSlice> buffers);

// A failure of the parameter of this slot.
absl::Status BadSlot(v1::ErrorCode code, uint32_t slot, absl::string_view why);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_SEQUENCE_STEP_H_
