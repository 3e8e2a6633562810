// OptOps: transforms of a kernel's loop nest, as data.
#ifndef KILN_COMPILER_OPT_APPLY_H_
#define KILN_COMPILER_OPT_APPLY_H_

#include <string>
#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// A kernel's loops by number: those of its output, outermost first, then those
// of each REDUCE in topological order. Numbers stay while OptOps are applied.
std::vector<UOp*> AxesOf(UOp* sink);

struct OptOp {
  enum Kind { kSplit, kPadTo, kThread };
  Kind kind;
  int axis;
  // kSplit: the factor of the new inner axis. kPadTo: the multiple.
  int64_t amount = 0;
  // kSplit: kUpcast or kUnroll, and which lane dimension it becomes.
  AxisType target = AxisType::kUpcast;
  int64_t dimension = 0;
};

std::string ToString(const OptOp& opt);  // "SPLIT(0, 16, UPCAST)"

// Applies `opts` from left to right.
//   kSplit   axis n -> (n / amount, amount); amount divides n
//   kPadTo   rounds the axis up to a multiple; what is beyond is gated
//   kThread  the axis, which is the outermost, may be cut into parallel parts
UOp* ApplyOpts(Graph& graph, UOp* sink, const std::vector<OptOp>& opts);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_APPLY_H_
