// WMMA as loops over memory, for targets without an instruction for it; where there is one, it is listed as a read is.
//
// One item (threads = 1) holds whole matrices, row-major. A wave's items hold them in
// fragments, which compiler/spec/wmma_layout.h describes. They write theirs to LOCAL
// memory, meet at a BARRIER, and each computes its own elements of the product.
#ifndef KILN_COMPILER_PROGRAM_WMMA_H_
#define KILN_COMPILER_PROGRAM_WMMA_H_

#include <functional>
#include <map>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Whether a target multiplies by an instruction of its own what a wave holds in fragments.
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
  UOp* OfAWave(const UOp* wmma, absl::Span<UOp* const> operands, std::vector<UOp*>& list);

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

#endif  // KILN_COMPILER_PROGRAM_WMMA_H_
