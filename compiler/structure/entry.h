// The levels at which a program may enter the compiler: as a graph of tensors,
// as the loops of one kernel, or as that kernel's instructions in order.
#ifndef KILN_COMPILER_STRUCTURE_ENTRY_H_
#define KILN_COMPILER_STRUCTURE_ENTRY_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

enum class EntryLevel {
  kTensor,   // TUPLE or SINK of values and STOREs of tensors
  kKernel,   // SINK over RANGEs or SPECIALs, or with a KernelArg
  kProgram,  // LINEAR
};

// Of a root, or of a CALL's body. A RANGE over devices alone makes no kernel, and
// what is inside a CALL's body says nothing about its caller.
EntryLevel LevelOf(UOp* root);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_STRUCTURE_ENTRY_H_
