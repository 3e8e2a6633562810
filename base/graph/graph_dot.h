// A picture of a graph, as Graphviz DOT text.
#ifndef KILN_BASE_GRAPH_GRAPH_DOT_H_
#define KILN_BASE_GRAPH_GRAPH_DOT_H_

#include <functional>
#include <string>

#include "kiln/v1/graph.pb.h"

namespace kiln {

// One box a node, coloured by the class of its op: movement green, reduce red,
// elementwise yellow, call blue, load rose, store purple, ordering brown,
// markers orange, the rest grey; but a RANGE or SPECIAL by the type of its axis, as
// tinyspec has them: GLOBAL blue, LOCAL cyan, REDUCE red, UPCAST yellow, UNROLL
// purple, ... Labelled with index, op, argument and dtype
// check, and below them what `annotate` returns for the node. An edge goes from
// a source to its user, numbered where there are several. Edges to no node are
// left out. Any graph is fine.
std::string GraphToDot(const v1::Graph& graph, const std::function<std::string(int)>& annotate = nullptr);

}  // namespace kiln

#endif  // KILN_BASE_GRAPH_GRAPH_DOT_H_
