// Which loops each node of a kernel stands in.
#ifndef KILN_COMPILER_KERNEL_RANGES_H_
#define KILN_COMPILER_KERNEL_RANGES_H_

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// RANGEs in order of creation, without duplicates.
using RangeSet = absl::InlinedVector<UOp*, 4>;

// For every node under `sink`, the RANGEs it depends on that no END or REDUCE
// below it, or it itself, has closed.
absl::flat_hash_map<UOp*, RangeSet> OpenRanges(UOp* sink);

// The coefficient of `range` in the int64 node `index`: 0 if independent, none
// if it is not linear in it.
std::optional<int64_t> StrideIn(UOp* index, UOp* range);

// Whether `index` is another number in each iteration of `loops` together: it counts through them like digits, each
// loop by a step of at least all that those with smaller steps reach. Steps and sizes may be products of variables.
// False is "not proved".
bool CountsApart(UOp* index, absl::Span<UOp* const> loops);

// The kernel's output loops, outermost first: those of the END under `sink`.
std::vector<UOp*> OutputRanges(const UOp* sink);

// The ENDs of nests that reduce into memory, in topological order: their outermost loop is a reduced one, outside of
// loops of the output (opt/outer_reduce.h).
std::vector<UOp*> OuterReduces(UOp* sink);

// The largest divisor of `n`, which is positive, of at most `at_most`; 1 if that is less.
int64_t LargestDivisor(int64_t n, int64_t at_most);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_RANGES_H_
