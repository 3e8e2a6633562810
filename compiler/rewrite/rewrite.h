// graph_rewrite: applies rules all over a graph until none applies.
#ifndef KILN_COMPILER_REWRITE_REWRITE_H_
#define KILN_COMPILER_REWRITE_REWRITE_H_

#include "absl/container/flat_hash_map.h"
#include "compiler/rewrite/pattern.h"

namespace kiln::compiler {

// Rewrites bottom-up: a node's sources are final before the node is tried, and
// a replacement is itself rewritten before it is used. Rules that would never come
// to rest are a fault of ours, and no client's misfortune: after very many rounds a
// node stays what it then is, which has the same value. Iterative, so depth costs no
// stack.
UOp* GraphRewrite(UOp* root, const RuleSet& rules, Graph& graph);

// The same with a cache that outlives the call: nodes rewritten before cost one
// look-up. The cache belongs to one RuleSet and one Graph.
class Rewriter {
 public:
  Rewriter(const RuleSet& rules, Graph& graph) : rules_(rules), graph_(graph) {}
  UOp* Rewrite(UOp* root);

 private:
  const RuleSet& rules_;
  Graph& graph_;
  absl::flat_hash_map<UOp*, UOp*> done_;
  size_t steps_ = 0;
};

// Replaces nodes, and rebuilds whatever stands above them. Nothing inside a
// replacement is replaced again.
UOp* Substitute(UOp* root, const absl::flat_hash_map<UOp*, UOp*>& replacements, Graph& graph);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_REWRITE_REWRITE_H_
