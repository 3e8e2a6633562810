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
  enum Kind { kSplit, kPadTo, kSwap, kThread };
  Kind kind;
  int axis;
  // kSplit: the factor of the new axis. kPadTo: the multiple. kSwap: the other axis.
  int64_t amount = 0;
  // kSplit: what the new axis is; of kUpcast and kUnroll also which lane dimension.
  AxisType target = AxisType::kUpcast;
  int64_t dimension = 0;
  bool top = false;  // kSplit: the new axis is the outer one
};

std::string ToString(const OptOp& opt);  // "SPLIT(0, 16, UPCAST)"

// Applies `opts` from left to right.
//   kSplit   axis n -> (n / amount, amount), or (amount, n / amount) with `top`;
//            amount divides n. If the new axis is a loop, the numbers behind it grow.
//   kSwap    exchanges two loops of one END or REDUCE
//   kPadTo   rounds the axis up to a multiple; what is beyond is gated
//   kThread  the axis, which is the outermost, may be cut into parallel parts
UOp* ApplyOpts(Graph& graph, UOp* sink, const std::vector<OptOp>& opts);

// One of them, without the clean-up that ApplyOpts does at the end.
UOp* ApplyOpt(Graph& graph, UOp* sink, const OptOp& opt);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_APPLY_H_
