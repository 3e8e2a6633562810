// The lanes of a value in a kernel, and where they go as its shape changes. Tested by interp_test.cc and the tests of
// passes that make lanes.
#ifndef KILN_COMPILER_INTERP_LANES_H_
#define KILN_COMPILER_INTERP_LANES_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Row-major in the shape of its node.
using Lanes = absl::InlinedVector<uint64_t, 1>;

// For each lane of `to`, the lane of a value of shape `from` that it reads.
std::vector<int64_t> Spread(const Shape& from, const Shape& to);

// What `uop` makes of the lanes `x` of its source: a RESHAPE or EXPAND; a SHRINK or PAD of the last dimension
// (kernel/lane_scan.h); or a PERMUTE of the first and the last (kernel/expand.h).
Lanes MovedLanes(const UOp* uop, const Lanes& x);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_INTERP_LANES_H_
