// WMMA as loops over memory, for targets without an instruction for it; where there is one, it is listed as a read is.
//
// One item (threads = 1) holds whole matrices, row-major. A warp (threads = 32)
// holds them in fragments, laid out as PTX says for mma.m16n8k16 and m16n8k8: of
// lane l, with g = l / 4 and t = l % 4,
//   A, element e: row g + 8 * (e / 2 % 2), column 2 * t + e % 2 + 8 * (e / 4)
//   B, element e: row 2 * t + e % 2 + 8 * (e / 2), column g
//   C, element e: row g + 8 * (e / 2), column 2 * t + e % 2
// The lanes of a warp write theirs to LOCAL memory, meet at a BARRIER, and each
// computes its own elements of the product.
#ifndef KILN_COMPILER_KERNEL_WMMA_H_
#define KILN_COMPILER_KERNEL_WMMA_H_

#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Whether a target multiplies by its own instruction what a warp holds in the fragments above.
using HasWmma = std::function<bool(const WmmaArg&)>;

class WmmaLowering {
 public:
  // `program`: whose work group the items are of.
  WmmaLowering(Graph& graph, UOp* program, HasWmma has);

  // Appends to `list` what computes `wmma` with `operands` (A, B, C) as its
  // sources, and returns the product. UNSUPPORTED_OP for sizes of no known layout.
  absl::StatusOr<UOp*> Lower(const UOp* wmma, absl::Span<UOp* const> operands, std::vector<UOp*>& list);

 private:
  UOp* OneItem(const UOp* wmma, absl::Span<UOp* const> operands, std::vector<UOp*>& list);
  UOp* OfAWarp(const UOp* wmma, absl::Span<UOp* const> operands, std::vector<UOp*>& list);

  // Memory for one operand, used again by every WMMA that is alike.
  UOp* Buffer(int role, int64_t size, DType dtype, AddrSpace space);
  UOp* Read(UOp* pointer, std::vector<UOp*>& list);

  Graph& graph_;
  const HasWmma has_;
  UOp* item_ = nullptr;  // the item's number in its group
  int64_t items_ = 1;    // of a group
  std::map<std::tuple<int, int64_t, DType, AddrSpace>, UOp*> buffers_;
};

// The n-th read of `pointer`, as NameValues lists it.
UOp* ReadOf(Graph& graph, UOp* pointer);
// 0, 1, ..., n - 1 in lanes.
UOp* Iota(Graph& graph, int64_t n);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_KERNEL_WMMA_H_
