// OptOps: transforms of a kernel's loop nest, as data.
#ifndef KILN_COMPILER_OPT_APPLY_H_
#define KILN_COMPILER_OPT_APPLY_H_

#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// A kernel's loops by number: those of its output, outermost first, then those
// of each REDUCE in topological order. Numbers stay while OptOps are applied. The
// loops that fill local buffers have none.
std::vector<UOp*> AxesOf(UOp* sink);

// One row of opt_ops.def each; schedule_text.h has their text.
struct OptOp {
  enum Kind {
#define OPT_OP(Name, ...) k##Name,
#include "compiler/opt/opt_ops.def"
#undef OPT_OP
  };
  Kind kind;
  int axis;
  // kSplit: the factor of the new axis. kPadTo: the multiple. kSwap: the other axis.
  // kLocal, whose axes count on behind all others with the outermost loops of OuterReduces: the operand, by its number
  // in OperandsOf; of n operands, numbers from n on are those same, copied in words for dot products (local_buffer.h).
  // kTensor, whose axis is that of rows: the axis of columns.
  int64_t amount = 0;
  // kSplit: what the new axis is; of kUpcast and kUnroll also which lane dimension. kTensor: the tile's number.
  AxisType target = AxisType::kUpcast;
  int64_t dimension = 0;
  bool top = false;    // kSplit: the new axis is the outer one
  bool clamp = false;  // kPadTo: reads beyond the end read the last element

  // What a row of opt_ops.def calls its number.
  int64_t factor() const { return amount; }    // kSplit
  int64_t multiple() const { return amount; }  // kPadTo
  int64_t other() const { return amount; }     // kSwap: the other axis
  int64_t operand() const { return amount; }   // kLocal
  int64_t columns() const { return amount; }   // kTensor: their axis
  int64_t tile() const { return dimension; }   // kTensor
  bool operator==(const OptOp&) const = default;
};

// Applies `opts`, which are legal (checked_schedule.h), from left to right.
//   kSplit   axis n -> (n / amount, amount), or (amount, n / amount) with `top`;
//            amount divides n. If the new axis is a loop, the numbers behind it grow.
//   kSwap    exchanges two loops of one END or REDUCE; or brings a loop of a REDUCE outside of
//            one of the output (outer_reduce.h): it has no number any more
//   kPadTo   rounds the axis up to a multiple; what is beyond is gated, or, with `clamp`,
//            only its writes are: reads are of the last element again, and cost nothing
//   kFuse    the output loop and the one inside it become one
//   kLocal   what the loops inside loop `axis` read of an operand is copied once
//            an iteration, in the order in which they walk it, to memory of the thread's own;
//            from then on no loop that is outside of a copy may become lanes
//   kTensor  a product of matrices, by tiles of work groups (tensor_tile.h); the last
//   kThread  the iterations of the axis, an output loop, may be shared out among threads
UOp* ApplyOpts(Graph& graph, UOp* sink, const std::vector<OptOp>& opts);

// One of them, without the clean-up that ApplyOpts does at the end.
UOp* ApplyOpt(Graph& graph, UOp* sink, const OptOp& opt);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_APPLY_H_
