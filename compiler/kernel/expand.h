// Expand: UPCAST and UNROLL loops become lanes.
#ifndef KILN_COMPILER_KERNEL_EXPAND_H_
#define KILN_COMPILER_KERNEL_EXPAND_H_

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// The ids of UPCAST and UNROLL ranges count from here, by the dimension of the
// lanes they become. The last dimension is the one that vector registers hold.
// Above the dimension they may hold a number that tells lanes of one dimension apart.
inline constexpr int64_t kLaneIds = int64_t{1} << 32;
inline constexpr int64_t kLaneDimensions = 16;
inline int64_t LaneDimension(const UOp* range) { return (range->arg_as<RangeArg>().id - kLaneIds) % kLaneDimensions; }

// Turns every UPCAST and UNROLL range into lanes: each node's shape has one
// dimension for each of them, of size 1 where the node does not depend on it.
// Beyond this point the parallel ranges are shapes, and a REDUCE's axes are its
// unrolled lanes. What memory has along the rows of a tile (dimension 0), and not along
// its lanes (the last one), is loaded and stored in vectors along the rows: a PERMUTE
// exchanges the two dimensions in registers.
UOp* Expand(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_EXPAND_H_
