// Makes wire graphs for tests, node by node, with no help from the compiler.
#ifndef KILN_TESTS_SUPPORT_WIRE_BUILDER_H_
#define KILN_TESTS_SUPPORT_WIRE_BUILDER_H_

#include <cstdint>
#include <initializer_list>

#include "absl/types/span.h"
#include "compiler/ir/uop.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::testing {

// A node's index in the graph.
using Node = uint32_t;

class WireBuilder {
 public:
  Node Add(v1::Op op, absl::Span<const Node> src);
  Node Add(v1::Op op, std::initializer_list<Node> src) { return Add(op, absl::MakeConstSpan(src.begin(), src.size())); }
  // The node made last, to set its argument.
  v1::UOp* last() { return graph_.mutable_nodes(graph_.nodes_size() - 1); }

  Node Shape(absl::Span<const int64_t> sizes);
  Node Param(uint32_t slot, compiler::DType dtype, absl::Span<const int64_t> shape);
  Node ConstBits(compiler::DType dtype, uint64_t bits);  // floats by pattern, the rest by value
  Node Invalid(compiler::DType dtype);
  Node Cast(Node x, compiler::DType dtype);
  Node Bitcast(Node x, compiler::DType dtype);
  Node Permute(Node x, absl::Span<const int64_t> order);
  Node Flip(Node x, absl::Span<const int64_t> flags);
  Node Reshape(Node x, absl::Span<const int64_t> shape) { return Add(v1::RESHAPE, {x, Shape(shape)}); }
  Node Expand(Node x, absl::Span<const int64_t> shape) { return Add(v1::EXPAND, {x, Shape(shape)}); }
  Node Shrink(Node x, absl::Span<const int64_t> offset, absl::Span<const int64_t> shape);
  Node Pad(Node x, absl::Span<const int64_t> offset, absl::Span<const int64_t> shape);
  Node Reduce(Node x, v1::Op op, absl::Span<const int64_t> axes);

  const v1::Graph& graph() const { return graph_; }

 private:
  v1::Graph graph_;
};

}  // namespace kiln::testing

#endif  // KILN_TESTS_SUPPORT_WIRE_BUILDER_H_
