// The part of the proof (row_wise.h) that is about one kernel.
#ifndef KILN_COMPILER_BATCH_KERNEL_ROWS_H_
#define KILN_COMPILER_BATCH_KERNEL_ROWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/polynomial.h"

namespace kiln::compiler {

// Why rows may not be mixed with those of strangers.
enum class Forbids : uint8_t {
  kByHand,
  kUpdates,
  kDevices,
  kCondition,
  kShape,
  kOrder,
  kReducesRows,
  kMadeOfRows,
  kRowNumber,
  kRowNumberInGate,
  kRowNumberInShared,
  kVariable,
  kOtherRow,
  kLeavesRow,
  kTooLarge,
  kUnknown,
};

// In plain words, in which the variable is "the batch size".
absl::string_view Words(Forbids why);

struct RowFault {
  Forbids why;
  const UOp* node;
};

// That a read of a varying buffer is one of row `row`: floor(index / stride) = row wherever `gate` holds.
struct RowEquation {
  UOp* index;
  UOp* row;
  UOp* stride;
  UOp* gate;  // null: always
};

// The nodes that have `leaf` under them. Each node is looked at once, for sizes share much, and many ask.
class Dependents {
 public:
  explicit Dependents(const UOp* leaf) : leaf_(leaf) {}
  bool Contain(const UOp* node);
  bool Contain(const Dim& size) { return !size.IsConst() && Contain(size.expr()); }

 private:
  const UOp* const leaf_;
  absl::flat_hash_map<const UOp*, bool> known_;
};

// `size` as a multiple of `variable` that does not depend on it any further; nothing if it is none.
std::optional<Polynomial> PerRow(Graph& graph, const Polynomial& size, UOp* variable);

// The first thing in `kernel`, one of MakeCall's (schedule/kernel_graph.h), that is not row-wise in
// `variable`, a PARAM of the kernel's own; null where the kernel does not have it. Nothing: what the header of
// row_wise.h asks of a kernel holds.
std::optional<RowFault> FaultOfKernel(Graph& graph, UOp* kernel, UOp* variable, std::vector<RowEquation>* used);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_BATCH_KERNEL_ROWS_H_
