// Elements put where a tensor of indices says.
//
// A graph has no store to a place that is computed, so each result looks for the updates that are
// meant for it: a mask of result by update, and a reduction over the updates.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// `mask` and `updates` have the updates along `axis`; `data` has size 1 there.
Result Reduced(Node& node, Tensor data, Tensor mask, Tensor updates, int64_t axis) {
  const std::string how = node.Text("reduction", "none");
  if (how == "none" || how == "add") {
    const Tensor sum = Sum(Where(mask, updates, Filled(updates, 0)), axis, true);
    return how == "add" ? data + Cast(sum, data.dtype()) : Where(Max(mask, axis, true), Cast(sum, data.dtype()), data);
  }
  if (how == "mul") return data * Prod(Where(mask, updates, Filled(updates, 1)), axis, true);
  if (how == "max") return Maximum(data, Max(Where(mask, updates, Least(node.graph(), data.dtype())), axis, true));
  if (how == "min") return Minimum(data, Min(Where(mask, updates, Greatest(node.graph(), data.dtype())), axis, true));
  return node.Bad("reduction is none, add, mul, max or min");
}

Result Scattered(Node& node, Tensor data, Tensor mask, Tensor updates, int64_t axis, const Sizes& shape) {
  KILN_ASSIGN_OR_RETURN(const Outputs made, Reduced(node, data, mask, updates, axis));
  return Reshape(made.values[0].tensor, shape);
}

// Along one axis. Indices may be fewer than the data along the others; there nothing is put.
Result ScatterElements(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), x.rank()));
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(x));
  KILN_ASSIGN_OR_RETURN(const Shape from, node.Dims(node.In(1)));
  if (from.size() != shape.size() || Sizes(from) != node.In(2).sizes())
    return node.Bad("indices and updates are not of one shape and the data's rank");
  AxisRanges more;
  for (int64_t i = 0; i < x.rank(); ++i) {
    if (i != axis && from[i] > shape[i])
      return node.Bad(absl::StrCat("indices of ", ShapeText(from), " into ", ShapeText(shape)));
    more.push_back({0, i == axis ? 0 : shape[i] - from[i]});
  }
  const Tensor ids = Pad(FromEnd(Cast(node.In(1), v1::INT64), shape[axis]), more, -1), updates = Pad(node.In(2), more);
  // A new axis behind `axis` has the updates.
  const auto turned = [&](Tensor t) { return Unsqueeze(t, axis); };
  const Tensor places = Along(node.graph().Arange(shape[axis], v1::INT64), axis, x.rank() + 1);
  return Scattered(node, Unsqueeze(x, axis + 1), turned(ids) == places,
                   BroadcastAs(turned(updates), Unsqueeze(x, axis + 1)), axis + 1, shape);
}

Result ScatterNd(Node& node) {
  const Tensor x = node.In(0), ids = Cast(node.In(1), v1::INT64);
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(x));
  KILN_ASSIGN_OR_RETURN(const Shape from, node.Dims(ids));
  if (from.empty() || from.back() < 0 || from.back() > x.rank())
    return node.Bad("an index has no more numbers than the data axes");
  const int64_t depth = from.back();
  Tensor places = node.graph().Zeros(Sizes(from.begin(), from.end() - 1), v1::INT64);
  int64_t rows = 1, rest = 1;
  for (int64_t axis = 0; axis < x.rank(); ++axis) (axis < depth ? rows : rest) *= shape[axis];
  for (int64_t axis = 0; axis < depth; ++axis) {
    const Tensor at = FromEnd(Squeeze(Part(ids, ids.rank() - 1, axis, axis + 1), -1), shape[axis]);
    places = places * shape[axis] + at;
  }
  const Tensor mask = Unsqueeze(Unsqueeze(node.graph().Arange(rows, v1::INT64), 1) == Reshape(places, {1, -1}), 2);
  const Tensor updates = Reshape(node.In(2), {1, places.sizes().Count(), rest});
  return Scattered(node, Reshape(x, {rows, 1, rest}), mask, updates, 1, shape);
}

// A cache written from a position of each batch on; circular where it says so.
Result TensorScatter(Node& node) {
  const Tensor cache = node.In(0), update = node.In(1);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", -2), cache.rank()));
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(cache));
  KILN_ASSIGN_OR_RETURN(const int64_t length, node.Dim(update, axis));
  const bool circular = node.Text("mode", "linear") == "circular";
  const int64_t rank = cache.rank();
  Graph& graph = node.graph();
  Tensor begin = node.Has(2) ? Along(Cast(node.In(2), v1::INT64), 0, rank + 1)
                             : Reshape(graph.Constant(0, v1::INT64), Sizes(Shape(rank + 1, 1)));
  Tensor at = begin + Along(graph.Arange(length, v1::INT64), axis + 1, rank + 1);
  if (circular) at = Mod(at, shape[axis]);
  const Tensor mask = at == Along(graph.Arange(shape[axis], v1::INT64), axis, rank + 1);
  const Tensor spread = BroadcastAs(Unsqueeze(update, axis), Unsqueeze(cache, axis + 1));
  return Scattered(node, Unsqueeze(cache, axis + 1), mask, spread, axis + 1, shape);
}

// The inverse of MaxPool: its indices are places in the whole tensor.
Result MaxUnpool(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const Shape from, node.Dims(x));
  const std::vector<int64_t> kernel = node.Ints("kernel_shape");
  const size_t axes = kernel.size();
  if (from.size() != axes + 2) return node.Bad("the kernel has not the input's axes");
  const std::vector<int64_t> stride = node.Ints("strides", std::vector<int64_t>(axes, 1)),
                             pads = node.Ints("pads", std::vector<int64_t>(2 * axes, 0));
  if (stride.size() != axes || pads.size() != 2 * axes) return node.Bad("strides or pads are not one an axis");
  Shape pooled(from.begin(), from.begin() + 2);
  for (size_t i = 0; i < axes; ++i)
    pooled.push_back((from[i + 2] - 1) * stride[i] + kernel[i] - pads[i] - pads[i + axes]);
  Shape shape = pooled;
  if (node.Has(2)) {
    KILN_ASSIGN_OR_RETURN(shape, node.Integers(2));
  }
  if (shape.size() != from.size() || !ElementCount(shape) || !ElementCount(pooled))
    return node.Bad("the output's shape is of no tensor");
  // The indices are places in a tensor of the pool's own size; a larger output has it in its corner.
  AxisRanges more;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < pooled[i]) return node.Bad("the output is smaller than what was pooled");
    more.push_back({0, shape[i] - pooled[i]});
  }
  const int64_t count = *ElementCount(pooled);
  const Tensor mask = Unsqueeze(node.graph().Arange(count, v1::INT64), 1) == Reshape(node.In(1), {1, -1});
  const Tensor put = Sum(Where(mask, Reshape(x, {1, -1}), 0.0), 1);
  return Pad(Reshape(put, pooled), more);
}

constexpr OpRow kRows[] = {
    {"ScatterElements", 11, ScatterElements, 3, 3},
    {"Scatter", 9, ScatterElements, 3, 3},
    {"ScatterND", 11, ScatterNd, 3, 3},
    {"TensorScatter", 24, TensorScatter, 2, 3},
    {"MaxUnpool", 9, MaxUnpool, 2, 3},
};

}  // namespace

OpRows ScatterOps() { return kRows; }

}  // namespace kiln::onnx
