// Writes the instructions of a program in order: the sources of a LINEAR.
//
// A client lists the nodes that it sent; one of them may have become several core
// nodes at import. And a node that only computes (arithmetic, a pointer) need
// not be listed by the client at all: then it is computed where it is used, from
// what its sources are there. So after import every node stands in the list
// before its users.
#ifndef KILN_COMPILER_IMPORT_PROGRAM_LIST_H_
#define KILN_COMPILER_IMPORT_PROGRAM_LIST_H_

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "compiler/ir/graph.h"
#include "compiler/structure/program_scopes.h"

namespace kiln::compiler {

class ProgramList {
 public:
  // `reread` are LOADs of accumulators: each user of one reads it anew.
  ProgramList(Graph& graph, const absl::flat_hash_set<UOp*>& reread) : graph_(graph), reread_(reread) {}

  // Lists `uop`, after whatever must be computed for it. GRAPH_TOO_LARGE if that
  // is more than any program needs.
  absl::Status Add(UOp* uop);

  std::vector<UOp*> Take() { return std::move(list_); }

 private:
  // Sees to it that `source` has its value of this moment.
  absl::Status Provide(UOp* source, const UOp* user);
  bool IsStale(UOp* uop, uint32_t position) const;
  void Append(UOp* uop, bool computed_for_user);
  UOp* InOrder(UOp* end) const;

  Graph& graph_;
  const absl::flat_hash_set<UOp*>& reread_;
  ProgramScopes scopes_;
  std::vector<UOp*> list_;
  std::vector<bool> computed_for_user_;  // by position: the client did not list it
  uint64_t visits_ = 0;
};

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_PROGRAM_LIST_H_
