// Which nodes of a graph count, and which of them stand in programs written by hand.
#ifndef KILN_COMPILER_IMPORT_PROGRAM_NODES_H_
#define KILN_COMPILER_IMPORT_PROGRAM_NODES_H_

#include <vector>

#include "absl/container/flat_hash_set.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// By node: whether the root, the last, reaches it. What it does not reach is no part of
// the graph's hash, so it may not change what the rest means. A source that is not before
// its user is passed over.
std::vector<bool> Reached(const v1::Graph& wire);

// What a LINEAR, or the SINK of a kernel, reaches; with what is listed in both, for
// one node may stand in a program and in a graph of tensors. A source that is not
// before its user is passed over.
absl::flat_hash_set<const v1::UOp*> NodesOfPrograms(const v1::Graph& wire);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_PROGRAM_NODES_H_
