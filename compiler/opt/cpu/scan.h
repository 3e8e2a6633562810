// The loops of kernels that are a scan (rules/scan.h): a running sum, product or maximum.
//
// The accumulator lives from iteration to iteration of the scanned loop, so that loop is run by one
// thread and in order. Lanes are
//   along another axis   of the output, if that is contiguous: an accumulator each
//   along the scan       otherwise: a vector is scanned in registers (lane_scan.h), and only
//                        its total waits for the vectors before it
#ifndef KILN_COMPILER_OPT_CPU_SCAN_H_
#define KILN_COMPILER_OPT_CPU_SCAN_H_

#include "compiler/ir/graph.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

// `sink`, a decomposed kernel, in these loops; null if it is no scan: one STORE over one
// REDUCE that is one along a loop of the output.
UOp* ScheduleScan(Graph& graph, UOp* sink, const v1::Target& target);

// The loop of the REDUCE that it does without; null if it is no scan, or if OptOps are asked for.
const UOp* LoopWithoutIterations(Graph& graph, UOp* sink);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_CPU_SCAN_H_
