// The OptOps that a client's kernel brings (KernelInfo.opts).
//
//   SPLIT   axis, (factor, target AxisType, top?, dimension?): axis n becomes
//           (n / factor, factor), or (factor, n / factor) with top. UPCAST splits an
//           output axis and UNROLL a reduced one: their parts become lanes, of the
//           dimension given (the last one lies in vector registers), or of one behind
//           those that there are. LOOP, LOCAL and THREAD split an output axis, REDUCE
//           and GROUP_REDUCE a reduced one: on this target their parts are loops.
//           A factor of 0 into THREAD: threads share the whole axis; it comes last.
//   PADTO   axis, (multiple, clamp?)
//   SWAP    axis, (axis): two axes of the output, or two of one REDUCE, or one of each
//   FUSE    axis, (): it and the output axis inside it
//   LOCAL   axis, (operand): of the kernel's only REDUCE, copied in each iteration of the axis
//   TC      axis, (tile, axis): of rows and of columns; the tile by its number in structure/group_product.h; the last
//   OptOp NOLOCALS
// opt/apply.h says what each does, and opt/checked_schedule.h which are legal. Axes
// count from 0: those of the output, outermost first, then those of the REDUCEs; what
// became lanes has no number any more.
#ifndef KILN_COMPILER_OPT_REQUESTED_H_
#define KILN_COMPILER_OPT_REQUESTED_H_

#include <vector>

#include "absl/status/statusor.h"
#include "compiler/opt/apply.h"
#include "kiln/v1/target.pb.h"

namespace kiln::compiler {

inline constexpr size_t kMaxOptOps = 128;  // of one kernel

struct Scheduled {
  UOp* sink;
  std::vector<OptOp> opts;  // all that have been applied
};

// Applies `opts` to the plain kernel `sink` from left to right, and lets threads
// share its outermost loop if they do not say so. BAD_ARGUMENT names the OptOp by its
// place, what is wrong with it and what is legal; UNSUPPORTED_OP for TC
// where there are no tensor cores.
absl::StatusOr<Scheduled> ApplyRequested(Graph& graph, UOp* sink, const std::vector<OptArg>& opts,
                                         const v1::Target& target);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_REQUESTED_H_
