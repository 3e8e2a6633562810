// From what a client sent to what a program takes.
#ifndef KILN_SERVER_ENGINE_EXECUTIONS_ARGUMENTS_H_
#define KILN_SERVER_ENGINE_EXECUTIONS_ARGUMENTS_H_

#include <cstdint>
#include <variant>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "runtime/exec/program.h"
#include "runtime/hal/buffer.h"
#include "server/engine/executions/requests.h"

namespace kiln::server {

struct BoundArguments {
  // In the order of the signature's variables, checked.
  absl::InlinedVector<int64_t, 4> variables;
  // In the order of the signature's parameters.
  absl::InlinedVector<const Argument*, 8> arguments;
  // For each share of each of them (runtime::Program::taken): the memory, and the
  // record behind a handle; null for a tensor by value, which has fresh memory, into
  // which nothing has been copied yet.
  absl::InlinedVector<runtime::hal::BufferSlice, 8> slices;
  absl::InlinedVector<BufferTable::Record, 8> records;

  bool by_value(size_t parameter) const { return std::holds_alternative<TensorView>(arguments[parameter]->value); }
  // By value, or memory of the server's.
  bool without_handle(size_t parameter) const {
    return by_value(parameter) || std::holds_alternative<BufferTable::Record>(arguments[parameter]->value);
  }
  // Of one share of what came by handle.
  uint64_t HandleOf(size_t parameter, size_t share) const;
};

// Fails with the slot (and the handle) named:
//   MISSING_ARGUMENT, UNKNOWN_ARGUMENT   a slot too few or too many, whatever was
//                                        sent for it
//   BAD_ARGUMENT                         a slot given twice; an integer where
//                                        memory is wanted, or the other way round;
//                                        a variable outside its range; another number
//                                        of buffers than the parameter is on devices
//   UNKNOWN_HANDLE, OUT_OF_BOUNDS        no such buffer, or an offset past its end
//   OUT_OF_BOUNDS                        a condition of the program's on its
//                                        variables: no slot, but the condition as
//                                        `field` (runtime/plan/sizes.h)
//   BUFFER_DTYPE_MISMATCH                a dtype other than the parameter's,
//                                        where one is known
//   BUFFER_SIZE_MISMATCH                 a tensor of another shape or length; a
//                                        typed buffer of another shape; fewer
//                                        bytes than the parameter has
//   OUT_OF_MEMORY, QUOTA_EXCEEDED        no room for a tensor by value
// An untyped buffer, or one taken from an offset on, may have bytes to spare.
// What is left (alignment, device, overlap) the runtime checks.
// Memory for tensors by value is at the caller's expense, and what they leave in it is the domain's.
absl::Status BindArguments(const runtime::Program& program, absl::Span<const Argument> arguments,
                           const BufferTable& buffers, const Session* caller, MemoryDomain domain,
                           BoundArguments& bound);

// What comes first of that, and takes no memory: fills `variables`, and `arguments`, of which one that is missing is
// null.
absl::Status MatchArguments(const runtime::Program& program, absl::Span<const Argument> arguments,
                            BoundArguments& bound);

// Whether a parameter, by its place in the signature, takes this: BUFFER_DTYPE_MISMATCH, BUFFER_SIZE_MISMATCH.
absl::Status CheckTensor(const runtime::Program& program, size_t parameter, runtime::VariableValues variables,
                         const TensorView& tensor);

// What a run with these reads and writes, of memory that is there before it.
void AddTouched(const runtime::Program& program, const BoundArguments& bound, Touched& touched);

}  // namespace kiln::server

#endif  // KILN_SERVER_ENGINE_EXECUTIONS_ARGUMENTS_H_
