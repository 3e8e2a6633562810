// Building a UOp graph, node by node, on the client.
//
//   Graph graph;
//   Tensor x = graph.Param(0, v1::FLOAT32, {32, 64}, "x");
//   Tensor w = graph.Param(1, v1::FLOAT32, {64, 10}, "w");
//   graph.Output(Softmax(Matmul(x, w), -1));
//   absl::StatusOr<v1::Graph> message = graph.Build();
//
// On several devices, x by shares of its rows, w whole on each (sharding.h):
//
//   Tensor x = graph.Param(0, v1::FLOAT32, {32, 64}, "x", {"CPU:0", "CPU:1"});
//   Tensor w = WholeParam(graph, 1, v1::FLOAT32, {64, 10}, {"CPU:0", "CPU:1"}, "w");
//
// Of a size that each call gives (size.h): one program serves all its values.
//
//   Size n = graph.Variable(2, 1, 1024, "n");
//   Tensor x = graph.Param(0, v1::FLOAT32, {n, 64}, "x");
//
// The functions that make tensors from tensors are in elementwise.h, movement.h,
// reduce.h, nn.h, conv.h and sharding.h (ops.h has them all). Each is a composition of
// tinyspec's core ops; nothing is computed here.
//
// Errors: a function never fails where it is called. The first mistake (shapes
// that do not fit, dtypes that differ) is kept in the Graph and returned by
// Build(); its result is an invalid Tensor, and what is made from that is invalid
// too. So a whole model is written without a check and checked once.
//
// Equal nodes are one node: writing the same expression twice costs nothing.
// Threads: one Graph is used by one thread at a time.
#ifndef KILN_CLIENT_CPP_GRAPH_H_
#define KILN_CLIENT_CPP_GRAPH_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cpp/arrays/dtype.h"
#include "client/cpp/size.h"
#include "kiln/v1/error.pb.h"
#include "kiln/v1/graph.pb.h"

namespace kiln::v1 {
class GradientResponse;
}

namespace kiln::client {

class Graph;

// Names of the server's devices, in order. None: whatever the program is compiled for.
using Devices = std::vector<std::string>;

// OK if a tensor of that shape can be there: the devices differ, and its first axis has
// an equal share for each. BAD_ARGUMENT or UNSUPPORTED_SHARD naming `function`.
absl::Status CheckDevices(absl::string_view function, const Devices& devices, const Sizes& shape);

// One value of a graph: a small handle, copied freely. It must not outlive its
// Graph.
class Tensor {
 public:
  Tensor() = default;

  bool valid() const { return graph_ != nullptr && node_ != kNone; }
  // Null only for a default-made Tensor.
  Graph* graph() const { return graph_; }
  // Its index among the Graph's nodes, before Build() renumbers.
  uint32_t node() const { return node_; }

  // UNSPECIFIED and () for an invalid tensor.
  v1::DType dtype() const;
  const Sizes& sizes() const;
  int64_t rank() const { return static_cast<int64_t>(sizes().size()); }
  // Size of an axis; negative counts from the last. 0 if there is no such axis.
  Size size(int64_t axis) const;
  // The same as numbers. A size that depends on variables is none: that it was asked for is
  // then kept as an error in the graph, and the answer is the greatest.
  const Shape& shape() const;
  int64_t dim(int64_t axis) const;

  // Names the node in the server's error messages.
  Tensor Tag(absl::string_view tag) const;

 private:
  friend class Graph;
  static constexpr uint32_t kNone = ~uint32_t{0};
  Tensor(Graph* graph, uint32_t node) : graph_(graph), node_(node) {}

  Graph* graph_ = nullptr;
  uint32_t node_ = kNone;
};

// A number of C++, before it has met a tensor and taken its dtype.
class Scalar {
 public:
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) : real_(static_cast<double>(value)) {  // NOLINT: implicit on purpose
    if constexpr (std::is_integral_v<T>) {
      integral_ = true;
      if constexpr (std::is_signed_v<T>) negative_ = value < 0;
      bits_ = static_cast<uint64_t>(value);
    }
  }

  // The constant's wire form in `dtype`; BAD_ARGUMENT if the type does not hold
  // it (a fraction in an integer, 300 in a uint8). Floats round to nearest.
  absl::StatusOr<v1::ConstArg> In(v1::DType dtype) const;

 private:
  double real_;
  bool integral_ = false;
  bool negative_ = false;
  uint64_t bits_ = 0;  // Two's complement, if integral.
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // -- Leaves
  // An argument of the program. One slot has one dtype and shape. On several devices each
  // has an equal share of the first axis; sharding.h has more of these.
  Tensor Param(uint32_t slot, v1::DType dtype, const Sizes& shape, absl::string_view name = "",
               const Devices& devices = {});
  // An integer that each call gives (Arguments::Set), for sizes. BAD_ARGUMENT unless
  // 0 <= least <= greatest; a slot is of one variable, or of a parameter.
  Size Variable(uint32_t slot, int64_t least, int64_t greatest, absl::string_view name = "");
  // A size as a tensor of shape ().
  Tensor Number(const Size& size, v1::DType dtype = v1::INT32);
  Tensor Constant(Scalar value, v1::DType dtype);
  // One element after the other, as a rank-1 tensor; for short lists.
  Tensor Constants(const std::vector<double>& values, v1::DType dtype);
  Tensor Full(const Sizes& shape, Scalar value, v1::DType dtype);
  Tensor Zeros(const Sizes& shape, v1::DType dtype) { return Full(shape, 0, dtype); }
  Tensor Ones(const Sizes& shape, v1::DType dtype) { return Full(shape, 1, dtype); }
  // 0, 1, ..., count - 1.
  Tensor Arange(const Size& count, v1::DType dtype = v1::INT32);

  // -- Effects and results
  // Updates `param` in place when the program has run. As a result (Output) it is
  // the parameter itself; used in later nodes it is the value after the update.
  Tensor Assign(Tensor param, Tensor value);
  // Makes a value result number N, counting calls from 0.
  void Output(Tensor value);
  // Updates a parameter with no result to show for it.
  void Update(Tensor param, Tensor value);

  // -- Graphs in graphs
  // Puts a gradient's graph (Client::Gradient) into this one and returns its results,
  // in order. Its PARAMs are those of equal slots here, and must be like them. Empty,
  // with an error kept, if it does not fit. In a library of its own (graph_append.cc), for the
  // message is of a service.
  std::vector<Tensor> Append(const v1::GradientResponse& gradient);

  // The graph as a message: only the nodes the results and updates need, the
  // root TUPLE last. Or the first error.
  absl::StatusOr<v1::Graph> Build() const;
  const absl::Status& status() const { return status_; }

  // -- For readers of what was made
  // A node's message, its sources by the numbers that Tensor::node has.
  const v1::UOp& uop(uint32_t node) const { return nodes_[node].uop; }
  struct Type {
    v1::DType dtype;
    const Sizes& sizes;
    const Shape& shape;  // the greatest
  };
  Type type(uint32_t node) const { return {nodes_[node].dtype, nodes_[node].sizes, nodes_[node].shape}; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }

  // -- For functions that make ops
  // A node of this type; its sources must be nodes of this graph.
  Tensor Node(v1::UOp uop, v1::DType dtype, Sizes shape);
  // The op alone: sources, no argument.
  Tensor Node(v1::Op op, const std::vector<uint32_t>& sources, v1::DType dtype, Sizes shape);
  // A shape or offset as a source: a STACK of integers.
  uint32_t ShapeSource(const Sizes& shape);
  // Keeps the error if it is the first; returns an invalid tensor.
  Tensor Fail(v1::ErrorCode code, absl::string_view function, absl::string_view message);
  Tensor Fail(absl::Status status);

 private:
  friend class Tensor;
  struct Info {
    v1::UOp uop;
    v1::DType dtype;
    Sizes sizes;
    Shape shape;  // the greatest
  };
  struct Slot {
    v1::DType dtype;
    Sizes shape;
    Devices devices;
    std::optional<SizeVariable> variable = std::nullopt;  // and then nothing else
  };

  // True, or false with an error kept: `param` must be a PARAM, or one that is whole on
  // each of several devices; the types equal.
  bool CheckAssign(absl::string_view function, Tensor param, Tensor value);
  // True, or false with an error kept: whatever has the slot already is like this.
  bool TakeSlot(absl::string_view function, uint32_t slot, const Slot& wanted);
  // A size as a scalar node, its variables as they are or CAST to a dtype.
  Tensor SizeNode(const Size& size, std::optional<v1::DType> cast);

  // A deque, for shape() hands out references that must outlive later nodes.
  std::deque<Info> nodes_;
  // From a node's serialized content to its index.
  absl::flat_hash_map<std::string, uint32_t> interned_;
  absl::flat_hash_map<uint32_t, Slot> slots_;
  // The root's sources.
  std::vector<uint32_t> outputs_;
  absl::Status status_;
};

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_GRAPH_H_
