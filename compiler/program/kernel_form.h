// Kernels written by hand, brought into the form that Rangeify gives its own.
#ifndef KILN_COMPILER_PROGRAM_KERNEL_FORM_H_
#define KILN_COMPILER_PROGRAM_KERNEL_FORM_H_

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// A client's kernel, SINK over STOREs and ENDs of them, with
//   INDEX of storage as a value       a LOAD
//   INDEX by an index for each axis   one int64 index; an axis that is not known to
//                                     be in range gates the access
//   WHERE(gate, index, Invalid)       the gate of the access
//   STORE of WHERE(gate, v, Invalid)  the gate of the STORE
//   a loop that several close         one for each
//   a loop that nothing closes        closed under the SINK
// Storage has one dimension. What is no kernel is BAD_ARGUMENT or UNSUPPORTED_OP,
// with the node named.
absl::StatusOr<UOp*> NormaliseKernel(Graph& graph, UOp* sink);

// Whether the kernel is one nest of loops with constant bounds, of kKernelSpec: then
// LowerKernel takes it. Its LOADs have no alternative but 0. Else it goes as a program (list_kernel.h).
bool IsPlainKernel(UOp* sink);

// Whether `sink` has one STORE, and each iteration of the loops around it stores to a place
// of its own, so that their order is free: the strides of the index are those of a box.
bool IterationsStoreApart(UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_KERNEL_FORM_H_
