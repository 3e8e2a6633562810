// A vector that is scanned in registers: in log2(lanes) steps, each of which reduces the
// vector with itself, moved by 1, 2, 4, … lanes.
#ifndef KILN_COMPILER_KERNEL_LANE_SCAN_H_
#define KILN_COMPILER_KERNEL_LANE_SCAN_H_

#include <optional>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// How lanes l of a REDUCE(WHERE(later, identity, value of m), m) over lanes m of the same
// dimension are reduced; none for another REDUCE.
struct LaneScan {
  UOp* value;       // of m
  bool descending;  // reduced are the m from l on; otherwise those up to l
};
std::optional<LaneScan> LaneScanOf(Graph& graph, UOp* reduce);

// `value`, whose last dimension is lanes, scanned along them.
UOp* ScanLanes(Graph& graph, Op reduce_op, UOp* value, bool descending);
// The lane of a scan that has reduced all.
UOp* LastLane(Graph& graph, UOp* scanned, bool descending);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_LANE_SCAN_H_
