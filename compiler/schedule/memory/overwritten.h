// Which parameters a program overwrites: what such a one held before does not count, so a
// caller may hand in memory of which nothing is known.
#ifndef KILN_COMPILER_SCHEDULE_MEMORY_OVERWRITTEN_H_
#define KILN_COMPILER_SCHEDULE_MEMORY_OVERWRITTEN_H_

#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// For each of `parameters` whether the first of `calls` (a LINEAR of CALLs of kernels, in
// the order in which they run) that has it stores to every element of it, and reads none.
// What is not proved is not said: a kernel that is a LINEAR, sizes that are variables,
// gates, and values that may be Invalid count as reads.
std::vector<bool> Overwritten(absl::Span<UOp* const> parameters, const UOp* calls);

// Whether every run of the kernel `body` stores to all elements of the storage with this
// slot, without a gate, and does nothing else with it.
bool OverwritesSlot(UOp* body, uint32_t slot);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_SCHEDULE_MEMORY_OVERWRITTEN_H_
