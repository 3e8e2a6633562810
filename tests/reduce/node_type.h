// What the nodes of a graph derive as, as far as the importer lets them in.
#ifndef KILN_TESTS_REDUCE_NODE_TYPE_H_
#define KILN_TESTS_REDUCE_NODE_TYPE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

struct NodeType {
  v1::DType dtype = v1::DTYPE_UNSPECIFIED;  // unspecified: a node alone says nothing
  std::vector<int64_t> shape;
};

using TypesOf = std::function<std::vector<NodeType>(const v1::Graph&)>;

// Reads the graph below each node by itself: quadratic, and never refused as a whole.
std::vector<NodeType> DeriveTypes(const v1::Graph& graph);

}  // namespace kiln::testing

#endif  // KILN_TESTS_REDUCE_NODE_TYPE_H_
