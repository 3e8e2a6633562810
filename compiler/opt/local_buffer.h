// Local buffers: what inner loops read of an operand, copied beforehand into memory
// of the thread's own, in the order in which they walk it. Known as packing.
//
// A matrix product reads a panel of B once for each block of rows of A. In memory
// the rows of that panel lie far apart: each on a page of its own, and all of them
// in the same few sets of the cache. Copied, it is one contiguous piece, and what
// gates or converts its elements is done once. Of an image, of which a convolution
// reads most places several times, each place is copied once (walked_axes.h).
#ifndef KILN_COMPILER_OPT_LOCAL_BUFFER_H_
#define KILN_COMPILER_OPT_LOCAL_BUFFER_H_

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// All local buffers of a kernel together: they lie on the stack of the thread.
inline constexpr int64_t kMaxLocalBytes = 1 << 20;

// The operands of the kernel's REDUCE, left to right: the largest expressions of
// memory in it that do not depend on all output loops it depends on. Those are read
// again in several iterations, so that a copy may pay. None unless there is one REDUCE.
std::vector<UOp*> OperandsOf(UOp* sink);

// What an operand is when it is copied in words for dot products (kernel/dots.h), and the kernel that reads it so.
// None if the operand is no 8-bit integer, widened, of which the kernel reduces four lanes, nor such a bfloat16 of
// which it reduces two.
struct Packed {
  UOp* sink;
  UOp* operand;
  UOp* along;  // the loop over words of what is reduced; null if it is none
};
std::optional<Packed> PackInWords(Graph& graph, UOp* sink, UOp* operand);

// Bytes that CopyToLocal would take; 0 if it cannot: a size that is no number, or an
// operand in memory that the kernel writes.
int64_t LocalBytes(UOp* sink, UOp* operand, UOp* level);
// Bytes of the local buffers that there are.
int64_t LocalBytes(UOp* sink);

// `sink` with `operand` read from a buffer that is filled in each iteration of `level`, a
// loop of the output or a reduced one outside of those (outer_reduce.h): its places along the axes that the loops
// inside that one walk, those that are farthest apart in memory first, and then, if vectors of it are read, what each
// lane reads. The fill walks memory in its own order: lanes that lie across it are transposed. If no vectors of it are
// read, those are neighbours that `along` walks: a matrix unit takes rows so.
UOp* CopyToLocal(Graph& graph, UOp* sink, UOp* operand, UOp* level, UOp* along = nullptr);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_OPT_LOCAL_BUFFER_H_
