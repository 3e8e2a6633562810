// Whether what a caller brings fits what a program asks for.
#ifndef KILN_COMPILER_INTERP_ARGUMENTS_H_
#define KILN_COMPILER_INTERP_ARGUMENTS_H_

#include "absl/status/status.h"
#include "compiler/interp/interp.h"

namespace kiln::compiler {

// The argument of `slot` against the PARAM or BUFFER `storage`: MISSING_ARGUMENT,
// BUFFER_DTYPE_MISMATCH or BUFFER_SIZE_MISMATCH.
absl::Status CheckArgument(uint32_t slot, const UOp* storage, const HostTensors& arguments);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_ARGUMENTS_H_
