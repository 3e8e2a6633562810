#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/graph.h"
#include "kiln/v1/kernel_service.pb.h"

namespace kiln::client {
namespace {

// The integers of a PARAM's shape: a STACK of CONSTs.
Shape ShapeOf(const v1::Graph& graph, const v1::UOp& param) {
  Shape shape;
  for (const uint32_t axis : graph.nodes(static_cast<int>(param.src(0))).src()) {
    shape.push_back(graph.nodes(static_cast<int>(axis)).constant().i());
  }
  return shape;
}

bool InOrder(const v1::Graph& graph) {
  for (int i = 0; i < graph.nodes_size(); ++i) {
    for (const uint32_t source : graph.nodes(i).src()) {
      if (source >= static_cast<uint32_t>(i)) return false;
    }
    if (graph.nodes(i).op() == v1::PARAM && graph.nodes(i).src_size() != 1) return false;
  }
  return graph.nodes_size() > 0 && graph.nodes(graph.nodes_size() - 1).op() == v1::TUPLE;
}

}  // namespace

// The nodes go in as they are, not interned: the shapes of those in between are not
// known here, so no function may find them. The server interns them all.
std::vector<Tensor> Graph::Append(const v1::GradientResponse& gradient) {
  const v1::Graph& graph = gradient.graph();
  if (!InOrder(graph) || graph.nodes(graph.nodes_size() - 1).src_size() != gradient.results_size()) {
    Fail(v1::BAD_ARGUMENT, "Append", "this is no gradient's graph with its results");
    return {};
  }
  std::vector<uint32_t> number;
  for (int i = 0; i + 1 < graph.nodes_size(); ++i) {
    v1::UOp uop = graph.nodes(i);
    for (uint32_t& source : *uop.mutable_src()) source = number[source];
    Shape shape;
    v1::DType dtype = uop.dtype();
    if (uop.op() == v1::PARAM) {
      dtype = uop.buffer().dtype();
      shape = ShapeOf(graph, graph.nodes(i));
      const auto [it, inserted] = slots_.try_emplace(uop.buffer().slot(), Slot{dtype, shape, {}, {}});
      if (!inserted && (it->second.dtype != dtype || it->second.shape != Sizes(shape))) {
        Fail(v1::SHAPE_MISMATCH, "Append",
             absl::StrCat("slot ", uop.buffer().slot(), " is ", TypeText(it->second.dtype, it->second.shape),
                          " here and ", TypeText(dtype, shape), " in the gradient"));
        return {};
      }
    }
    number.push_back(static_cast<uint32_t>(nodes_.size()));
    nodes_.push_back({std::move(uop), dtype, shape, shape});
  }
  std::vector<Tensor> results;
  const v1::UOp& root = graph.nodes(graph.nodes_size() - 1);
  for (int i = 0; i < root.src_size(); ++i) {
    const Tensor result(this, number[root.src(i)]);
    Info& info = nodes_[result.node()];
    info.dtype = gradient.results(i).dtype();
    info.shape.assign(gradient.results(i).shape().begin(), gradient.results(i).shape().end());
    info.sizes = info.shape;
    results.push_back(result);
  }
  return results;
}

}  // namespace kiln::client
