// Whether a program can run on the buffers given.
#ifndef KILN_RUNTIME_EXEC_BIND_H_
#define KILN_RUNTIME_EXEC_BIND_H_

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/exec/loaded_executable.h"
#include "runtime/hal/buffer.h"

namespace kiln::runtime {

// One slice for each of the signature's parameters, in its order. `variables` has
// the values of the program's variables, which CheckVariables (sizes.h) has passed:
//   MISSING_ARGUMENT         too few slices, or one without a buffer
//   UNKNOWN_ARGUMENT         too many
//   OUT_OF_BOUNDS            a slice outside its buffer
//   BUFFER_SIZE_MISMATCH     a slice of another size than the parameter's
//   BUFFER_DTYPE_MISMATCH    an address that is no multiple of the dtype's size
//   BUFFER_DEVICE_MISMATCH           a buffer of another device
//   BAD_ARGUMENT             a written parameter that shares bytes with another
// Each names the slot. Allocates nothing if all is well and the parameters are 16 at
// most. Takes n log n steps for n parameters.
absl::Status CheckParameters(const LoadedExecutable& program, absl::Span<const hal::BufferSlice> parameters,
                             VariableValues variables = {});

// The same for result buffers that the caller brings: one slice for each of the
// signature's results; those that alias a parameter have no buffer. A result
// may share bytes with no parameter and no other result.
absl::Status CheckResults(const LoadedExecutable& program, absl::Span<const hal::BufferSlice> parameters,
                          absl::Span<const hal::BufferSlice> results, VariableValues variables = {});

// What one of several slices must be.
struct WantedSlice {
  uint32_t slot = 0;
  uint64_t bytes = 0;
  uint32_t alignment = 1;
  bool written = false;
  const hal::Device* device = nullptr;
};

// CheckParameters for slices on several devices: the same errors.
absl::Status CheckSlices(absl::Span<const WantedSlice> wanted, absl::Span<const hal::BufferSlice> slices);

}  // namespace kiln::runtime

#endif  // KILN_RUNTIME_EXEC_BIND_H_
