// Elements chosen by a tensor of indices.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

Sizes Spliced(const Sizes& shape, int64_t axis, const Sizes& with) {
  Sizes result(shape.begin(), shape.begin() + axis);
  result.insert(result.end(), with.begin(), with.end());
  result.insert(result.end(), shape.begin() + axis + 1, shape.end());
  return result;
}

Result GatherRows(Node& node) {
  const Tensor x = node.In(0), ids = node.In(1);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), x.rank()));
  const Tensor rows = IndexSelect(x, axis, Reshape(FromEnd(ids, x.size(axis)), {-1}));
  return Reshape(rows, Spliced(x.sizes(), axis, ids.sizes()));
}

// One number for each element: where it is in x, row-major. `along` replaces the coordinate of one axis.
Tensor Places(Node& node, const Shape& x, int64_t replaced, Tensor along) {
  int64_t stride = 1;
  Tensor places;
  for (int64_t axis = static_cast<int64_t>(x.size()) - 1; axis >= 0; --axis) {
    const Tensor at =
        axis == replaced ? along : Along(node.graph().Arange(along.size(axis), v1::INT64), axis, along.rank());
    places = places.valid() ? places + at * stride : at * stride;
    stride *= x[axis];
  }
  return places;
}

Result GatherElements(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis"), x.rank()));
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(x));
  KILN_ASSIGN_OR_RETURN(const Shape wanted, node.Dims(node.In(1)));
  if (wanted.size() != shape.size()) return node.Bad("the indices are not of the data's rank");
  for (size_t i = 0; i < shape.size(); ++i) {
    if (static_cast<int64_t>(i) != axis && wanted[i] > shape[i])
      return node.Bad(absl::StrCat("indices of ", ShapeText(wanted), " into ", ShapeText(shape)));
  }
  const Tensor ids = FromEnd(Cast(node.In(1), v1::INT64), x.size(axis));
  const Tensor inside = (ids >= 0) & (ids < shape[axis]);
  const Tensor places = Where(inside, Places(node, shape, axis, ids), -1);
  return Reshape(Index(Reshape(x, {-1}), {Reshape(places, {-1})}), wanted);
}

// The last axis of the indices has a place among the axes behind the batch; those and the batch's are
// made one axis, of which rows are taken.
Result GatherNd(Node& node) {
  const Tensor x = node.In(0), ids = Cast(node.In(1), v1::INT64);
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(x));
  KILN_ASSIGN_OR_RETURN(const Shape wanted, node.Dims(ids));
  const int64_t batch = node.Int("batch_dims"), rank = x.rank();
  if (wanted.empty() || batch < 0 || batch >= static_cast<int64_t>(wanted.size()) || batch > rank)
    return node.Bad("indices of rank 0, or a batch of more axes than there are");
  const int64_t depth = wanted.back();
  if (depth < 0 || batch + depth > rank)
    return node.Bad(absl::StrCat("an index of ", depth, " numbers into ", ShapeText(shape)));
  Tensor places;
  int64_t stride = 1;
  for (int64_t axis = batch + depth - 1; axis >= 0; --axis) {
    Tensor at;
    if (axis < batch) {
      if (wanted[axis] != shape[axis]) return node.Bad("the batches differ");
      at = Along(node.graph().Arange(shape[axis], v1::INT64), axis, ids.rank() - 1);
    } else {
      at = FromEnd(Squeeze(Part(ids, -1 + ids.rank(), axis - batch, axis - batch + 1), -1), shape[axis]);
    }
    places = places.valid() ? places + at * stride : at * stride;
    stride *= shape[axis];
  }
  Sizes rows(wanted.begin(), wanted.end() - 1), rest(shape.begin() + batch + depth, shape.end()), flat = rest;
  flat.insert(flat.begin(), stride);
  Sizes result = rows;
  result.insert(result.end(), rest.begin(), rest.end());
  if (!places.valid()) places = node.graph().Zeros(rows, v1::INT64);
  return Reshape(Index(Reshape(x, flat), {Reshape(BroadcastTo(places, rows), {-1})}), result);
}

// How many are kept depends on the condition, so it must be known.
Result Compress(Node& node) {
  Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const std::vector<int64_t> kept, node.Integers(1));
  int64_t axis = 0;
  if (node.HasAttribute("axis")) {
    KILN_ASSIGN_OR_RETURN(axis, node.Axis(node.Int("axis"), x.rank()));
  } else {
    x = Reshape(x, {-1});
  }
  std::vector<int64_t> places;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] != 0) places.push_back(static_cast<int64_t>(i));
  }
  return IndexSelect(x, axis, node.Make(places));
}

// Along the time axis, each batch's first `lens` elements backwards.
Result ReverseSequence(Node& node) {
  const Tensor x = node.In(0);
  KILN_ASSIGN_OR_RETURN(const int64_t time, node.Axis(node.Int("time_axis", 0), x.rank()));
  KILN_ASSIGN_OR_RETURN(const int64_t batch, node.Axis(node.Int("batch_axis", 1), x.rank()));
  KILN_ASSIGN_OR_RETURN(const Shape shape, node.Dims(x));
  if (time == batch) return node.Bad("the axes are one");
  const Tensor at = Along(node.graph().Arange(shape[time], v1::INT64), time, x.rank());
  const Tensor lens = Along(Cast(node.In(1), v1::INT64), batch, x.rank());
  const Tensor from = BroadcastTo(Where(at < lens, lens - 1 - at, at), shape);
  return Reshape(Index(Reshape(x, {-1}), {Reshape(Places(node, shape, time, from), {-1})}), shape);
}

constexpr OpRow kRows[] = {
    {"Gather", 1, GatherRows, 2, 2}, {"GatherElements", 11, GatherElements, 2, 2},   {"GatherND", 11, GatherNd, 2, 2},
    {"Compress", 9, Compress, 2, 2}, {"ReverseSequence", 10, ReverseSequence, 2, 2},
};

}  // namespace

OpRows GatherOps() { return kRows; }

}  // namespace kiln::onnx
