// From what a client sent to what a program takes.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_ARGUMENTS_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_ARGUMENTS_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/exec/program.h"
#include "runtime/hal/buffer.h"
#include "server/engine/executions/requests.h"

namespace kiln::server {

// A parameter, with its shape in this call; or one device's share of one.
struct WantedTensor {
  uint32_t slot = 0;
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

// One parameter, bound.
struct BoundParameter {
  // Where it came from: the request's argument, or null while there is none.
  const Argument* argument = nullptr;
  // The record behind a handle; null for a tensor by value.
  BufferTable::Record record;

  bool by_value() const { return argument != nullptr && record == nullptr; }
};

struct BoundArguments {
  // In the order of the signature's variables, checked.
  absl::InlinedVector<int64_t, 4> variables;
  // In the order of the signature's parameters. A tensor by value has fresh
  // memory, into which nothing has been copied yet.
  absl::InlinedVector<runtime::hal::BufferSlice, 8> slices;
  absl::InlinedVector<BoundParameter, 8> parameters;
};

// The buffer's record and the bytes of it that are wanted, and whether a tensor by value
// fits: errors as below.
absl::Status BindBuffer(const WantedTensor& parameter, const BufferAddress& address, const BufferTable& buffers,
                        const Session* caller, BoundParameter& bound, runtime::hal::BufferSlice& slice);
absl::Status CheckTensor(const WantedTensor& parameter, const TensorView& tensor);

// Fails with the slot (and the handle) named:
//   MISSING_ARGUMENT, UNKNOWN_ARGUMENT   a slot too few or too many, whatever was
//                                        sent for it
//   BAD_ARGUMENT                         a slot given twice; an integer where
//                                        memory is wanted, or the other way round;
//                                        a variable outside its range
//   UNKNOWN_HANDLE, OUT_OF_BOUNDS        no such buffer, or an offset past its end
//   OUT_OF_BOUNDS                        a condition of the program's on its
//                                        variables: no slot, but the condition as
//                                        `field` (runtime/plan/sizes.h)
//   BUFFER_DTYPE_MISMATCH                a dtype other than the parameter's,
//                                        where one is known
//   BUFFER_SIZE_MISMATCH                 a tensor of another shape or length; a
//                                        typed buffer of another shape; fewer
//                                        bytes than the parameter has
//   OUT_OF_MEMORY                        no room for a tensor by value
// An untyped buffer, or one taken from an offset on, may have bytes to spare.
// What is left (alignment, device, overlap) the runtime checks.
absl::Status BindArguments(const runtime::Program& program, absl::Span<const Argument> arguments,
                           const BufferTable& buffers, const Session* caller, BoundArguments& bound);

// What a run with these reads and writes, of memory that is there before it.
void AddTouched(const runtime::Program& program, const BoundArguments& bound, Touched& touched);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_ARGUMENTS_H_
