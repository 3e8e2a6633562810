// In which order the rows of a kernel's values are emitted.
//
// A tile of a product has more numbers than there are vector registers. What is made of it on the way to memory (a
// bias, another image, rounding to bytes) would be written instruction by instruction, each for all rows: then every
// value in between is spilled, and its load from the stack costs more than the instruction. So behind the product's
// loop, rows are finished one after the other.
#ifndef KILN_COMPILER_TARGET_LLVM_ROW_ORDER_H_
#define KILN_COMPILER_TARGET_LLVM_ROW_ORDER_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/types/span.h"
#include "compiler/ir/uop.h"

namespace kiln::compiler {

inline constexpr int64_t kAllRows = -1;

struct EmitStep {
  UOp* uop;
  int64_t row;  // or kAllRows

  friend bool operator==(const EmitStep&, const EmitStep&) = default;
};

// Whether `uop` makes each row of its value of the same row of what it is made of.
bool IsByRows(const UOp* uop);

// The instructions of a LINEAR. Between two loops, what leads to STOREs of `many_rows` or more, from LOADs before them, comes
// row by row, and all else before that. A row is stored before another is loaded, so nothing changes its order that is
// loaded from where a STORE goes, but from the same places.
inline constexpr int64_t kManyRows = 8;
inline constexpr int64_t kNeverSoManyRows = std::numeric_limits<int64_t>::max();
std::vector<EmitStep> InRowOrder(absl::Span<UOp* const> linear, int64_t many_rows = kManyRows);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_TARGET_LLVM_ROW_ORDER_H_
