// CALL of a kernel in a graph of tensors: (body, a0, a1, ...), where the body is a
// SINK of loops or a LINEAR of instructions, and PARAM k in it is argument k.
//
// The body's slots are its own; it stores to what its arguments are. A storage that
// it stores to is an argument as it is, and has then the state that the call makes
// of it; all other arguments are values. On a tuple of devices each runs the body, on its
// shares: a PARAM of the body has as many elements as one share. A variable in a body is the argument of its
// slot, or, beyond the arguments, the program's own.
#ifndef KILN_COMPILER_STRUCTURE_KERNEL_CALL_H_
#define KILN_COMPILER_STRUCTURE_KERNEL_CALL_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// What a call binds.
struct KernelCall {
  struct Argument {
    UOp* param;     // in the body: a PARAM or BUFFER, or a variable
    UOp* argument;  // what it is; for a variable of the program's own the variable itself
    bool written;   // the body stores or adds to it
  };
  std::vector<Argument> arguments;  // in ascending order of slot; none that the body does not name
};

// The slots of a kernel's storage that it stores or adds to.
absl::flat_hash_set<uint32_t> SlotsWritten(UOp* body);

// Checks CALL `call`, whose body is a kernel (functions.h). A fault names what is
// wrong with it: WRONG_SOURCE_COUNT, DTYPE_MISMATCH, SHAPE_MISMATCH for another number
// of elements, BAD_ARGUMENT for two written arguments that are one storage, or one
// that is no whole storage.
absl::StatusOr<KernelCall> ReadKernelCall(UOp* call);

// The PARAM or BUFFER that `argument` is all of: under RESHAPEs and AFTERs. nullptr
// if there is none.
UOp* WholeStorage(UOp* argument);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_KERNEL_CALL_H_
