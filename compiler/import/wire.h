// The codec between the wire's v1::Graph and a Graph of UOps.
#ifndef KILN_COMPILER_IMPORT_WIRE_H_
#define KILN_COMPILER_IMPORT_WIRE_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "compiler/ir/graph.h"
#include "compiler/options/options.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::compiler {

// Reads a graph from outside into `graph` and returns its root. Derived and
// older spellings become core ops, weak operands take their partner's dtype,
// and every node is checked: any fault is a Status that names the node.
absl::StatusOr<UOp*> FromWire(const v1::Graph& wire, const Limits& limits, Graph& graph);

// Every node that `root` reaches, with its dtype.
v1::Graph ToWire(UOp* root);

// The numbered text form of `root`, each line with its shape as a comment.
std::string ToText(UOp* root);

}  // namespace kiln::compiler

#endif  // KILN_COMPILER_IMPORT_WIRE_H_
