// FUNCTION and CALL, resolved where a graph is read.
//
// A FUNCTION is a lambda: (TUPLE body, a0, a1, ...), whose value is the body with
// a_k in place of each PARAM k. Nodes are shared by content, so one PARAM node may
// be slot 0 of the program outside and argument 0 inside. Bodies are therefore
// resolved from the innermost outwards, each with a memo of its own: what a body
// holds when its turn comes are its own PARAMs and nothing else, and what is put
// in their place is never looked into.
#ifndef KILN_COMPILER_IMPORT_FUNCTIONS_H_
#define KILN_COMPILER_IMPORT_FUNCTIONS_H_

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"

namespace kiln::compiler {

class FunctionInliner {
 public:
  // Bodies of more than `max_nodes` nodes in all, counted once for every time that
  // they are put somewhere, are GRAPH_TOO_LARGE: functions that call functions
  // twice grow without measure.
  FunctionInliner(Graph& graph, uint64_t max_nodes) : graph_(graph), max_nodes_(max_nodes) {}

  // FUNCTION(body, args...): a TUPLE. `reused`: the body stands in several
  // FUNCTIONs. If there is enough in it, its arguments and results are then marked
  // (AFTER with no deps) to be realised, so that all of them run equal kernels.
  absl::StatusOr<UOp*> Function(UOp* body, absl::Span<UOp* const> args, bool reused);

  // CALL(body, args...): a GROUP of the body's STOREs, to the storage that the
  // arguments are. A CALL of a kernel or a program (entry.h) stays one.
  absl::StatusOr<UOp*> Call(UOp* body, absl::Span<UOp* const> args);

 private:
  // `body` with each PARAM k replaced.
  absl::StatusOr<UOp*> Replace(UOp* body, absl::Span<UOp* const> args, absl::string_view what);

  bool IsKernel(UOp* body);
  // Whether a body that is used again is compiled apart from what is around it.
  bool IsApart(UOp* body);

  Graph& graph_;
  const uint64_t max_nodes_;
  uint64_t nodes_ = 0;
  absl::flat_hash_map<std::pair<UOp*, std::vector<UOp*>>, UOp*> done_;
  // By body: many CALLs and FUNCTIONs have one.
  absl::flat_hash_map<UOp*, bool> is_kernel_, is_apart_;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_FUNCTIONS_H_
