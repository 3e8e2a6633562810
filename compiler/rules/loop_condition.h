// What a condition says about the counter of one loop: for which iterations it holds.
#ifndef KILN_COMPILER_RULES_LOOP_CONDITION_H_
#define KILN_COMPILER_RULES_LOOP_CONDITION_H_

#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Which nodes depend on `range`; answers are remembered.
class DependsOn {
 public:
  explicit DependsOn(UOp* range) : range_(range) {}
  bool operator()(UOp* uop);

 private:
  UOp* range_;
  absl::flat_hash_map<UOp*, bool> known_;
};

// The iterations r of a loop for which all of this holds:
//   gates, which do not depend on r;  r >= each of `lows`;  r < each of `highs`;
//   r == `equal`, if there is one;    r != `unequal`, if there is one.
// `rest` are the conditions besides the one that `equal` came of.
struct IterationSet {
  std::vector<UOp*> gates, lows, highs;
  UOp* equal = nullptr;
  UOp* unequal = nullptr;
  std::vector<UOp*> rest;
};

// The iterations of `range` for which all of `conditions` hold; none if some condition
// is not of such a form. Exact, whatever values the other variables have.
std::optional<IterationSet> SolveFor(Graph& graph, UOp* range, DependsOn& depends, absl::Span<UOp* const> conditions);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_RULES_LOOP_CONDITION_H_
