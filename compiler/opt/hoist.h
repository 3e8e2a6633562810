// Copies of weights, made once for many runs.
//
// A kernel copies what it reads again into local memory, in the order in which it reads
// it (local_buffer.h): in each run, and for each share of the work anew. Where it copies
// what stays the same from run to run, all copies together are one buffer that a kernel
// of its own fills beforehand.
#ifndef KILN_COMPILER_OPT_HOIST_H_
#define KILN_COMPILER_OPT_HOIST_H_

#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// `body`, a kernel, in which the PARAMs of these slots are constant (BufferArg).
UOp* MarkConstants(Graph& graph, UOp* body, absl::Span<const uint32_t> slots);

// Whether `root` has a constant PARAM below it and loads from no other storage, nor
// depends on a variable.
bool OfConstants(UOp* root);

// What is made beforehand.
struct Hoisted {
  UOp* sink;      // a kernel of two PARAMs: 0 is the constant, 1 what is made of it
  uint32_t slot;  // of the constant, in the kernel that it was taken from
  int64_t bytes;
};

// `sink`, scheduled, without the copies of what is made of one constant each: in their
// place it reads PARAMs whose slots follow `slots`, the number of those it has. Adds to
// `hoisted` the kernels that fill these, in that order. Copies that would take several times the
// memory of the constant stay where they are.
UOp* HoistCopies(Graph& graph, UOp* sink, uint32_t slots, std::vector<Hoisted>& hoisted);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_HOIST_H_
