// Whether an Executable is one that this runtime can carry out safely.
#ifndef KILN_RUNTIME_PLAN_CHECK_EXECUTABLE_H_
#define KILN_RUNTIME_PLAN_CHECK_EXECUTABLE_H_

#include "absl/status/status.h"
#include "kiln/v1/executable.pb.h"
#include "kiln/v1/target.pb.h"

namespace kiln::runtime {

// Everything but the machine code itself. Afterwards every index is in range,
// every arena and constants offset inside, the kinds and features fit `device`,
// sizes agree with shapes, nothing read-only is written, and every fresh result
// is written by some step (so that no one sees what the memory held before).
// INTERNAL_FAULT with `field` set otherwise.
absl::Status CheckExecutable(const v1::Executable& executable, const v1::Target& device);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_PLAN_CHECK_EXECUTABLE_H_
