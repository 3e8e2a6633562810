// Rewriting of linear programs: a LINEAR is an order, so a node that a rule makes
// must also get a place in it.
#ifndef KILN_COMPILER_PROGRAM_LIST_REWRITE_H_
#define KILN_COMPILER_PROGRAM_LIST_REWRITE_H_

#include <functional>

#include "compiler/ir/graph.h"

namespace kiln::compiler {

// Gives each node, whose sources have been rewritten, its replacement: itself, or
// a node made for it. A statement that becomes several is a GROUP of them.
using NodeRule = std::function<absl::StatusOr<UOp*>(UOp* uop)>;

// `linear` with `rule` applied to every listed node, and to the constants and
// storage that they use. What a replacement needs is listed right before it: once
// in each scope that does not have it yet, and each time for a node that is itself
// listed more than once.
absl::StatusOr<UOp*> RewriteList(Graph& graph, UOp* linear, const NodeRule& rule);

// The PARAM or BUFFER that a pointer (INDEX, SHRINK, AFTER of one) leads to; null
// for values.
UOp* PointedStorage(UOp* pointer);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_PROGRAM_LIST_REWRITE_H_
