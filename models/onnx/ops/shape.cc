// Shapes as tensors, and tensors made from shapes.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <cmath>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

Result ShapeOf(Node& node) {
  const Tensor x = node.In(0);
  const int64_t rank = x.rank();
  const auto clipped = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  Sizes sizes;
  for (int64_t axis = clipped(node.Int("start")); axis < clipped(node.Int("end", rank)); ++axis)
    sizes.push_back(x.size(axis));
  return node.Make(sizes);
}

Result SizeOf(Node& node) { return node.graph().Number(node.In(0).sizes().Count(), v1::INT64); }

Result Constant(Node& node) {
  if (node.HasAttribute("value")) {
    bool narrow = false;
    KILN_ASSIGN_OR_RETURN(HostTensor read, node.TensorOf("value", &narrow));
    Value value = node.Make(std::move(read));
    value.narrow = narrow;
    return Outputs(std::move(value));
  }
  if (node.HasAttribute("value_int")) return node.graph().Constant(node.Int("value_int"), v1::INT64);
  if (node.HasAttribute("value_float")) return node.graph().Constant(node.Float("value_float"), v1::FLOAT32);
  if (node.HasAttribute("value_ints")) return node.Make(node.Ints("value_ints"));
  if (node.HasAttribute("value_floats")) {
    const std::vector<double> values = node.Floats("value_floats");
    return node.Make(values, {static_cast<int64_t>(values.size())}, v1::FLOAT32);
  }
  return node.Refuse("only tensors, integers and floats are constants");
}

Result ConstantOfShape(Node& node) {
  KILN_ASSIGN_OR_RETURN(const Sizes shape, node.SizesIn(0));
  for (const Size& size : shape) {
    if (size.greatest() < 0) return node.Bad(absl::StrCat("a shape of ", ShapeText(shape)));
  }
  if (!node.HasAttribute("value")) return node.graph().Zeros(shape, v1::FLOAT32);
  KILN_ASSIGN_OR_RETURN(HostTensor value, node.TensorOf("value"));
  if (ElementCount(value.shape) != 1) return node.Bad("the value is not one element");
  return BroadcastTo(Reshape(node.Make(std::move(value)), Sizes()), shape);
}

// Of floats the count is what their quotient says; the elements are computed by the program.
Result Range(Node& node) {
  const v1::DType dtype = node.In(0).dtype();
  const Known* limit = node.Find(node.In(1));
  const bool symbolic = limit != nullptr && !limit->IsReal() && !limit->Numbers() && limit->count() == 1;
  const Size end = symbolic ? limit->integers[0] : Size(0);
  KILN_ASSIGN_OR_RETURN(const std::vector<double> start, node.Reals(0));
  KILN_ASSIGN_OR_RETURN(const std::vector<double> delta, node.Reals(2));
  if (start.size() != 1 || delta.size() != 1) return node.Bad("start and delta are scalars");
  if (symbolic && start[0] == 0 && delta[0] == 1) return node.graph().Arange(end, dtype);
  KILN_ASSIGN_OR_RETURN(const std::vector<double> stop, node.Reals(1));
  if (stop.size() != 1 || delta[0] == 0) return node.Bad("the limit is a scalar, delta is not 0");
  const double count = std::max(0.0, std::ceil((stop[0] - start[0]) / delta[0]));
  if (!(count < 9e15)) return node.Bad("it has no end");
  const Tensor step = Reshape(node.In(2), Sizes()), first = Reshape(node.In(0), Sizes());
  if (IsInteger(dtype) && count > static_cast<double>(GreatestInteger(dtype))) return node.Bad("it has no end");
  return node.graph().Arange(static_cast<int64_t>(count), dtype) * step + first;
}

// Row and column of each element of the last two axes.
struct Grid {
  Tensor rows, columns;
};
Grid GridOf(Node& node, const Size& rows, const Size& columns) {
  return {Unsqueeze(node.graph().Arange(rows, v1::INT64), 1), node.graph().Arange(columns, v1::INT64)};
}

Result EyeLike(Node& node) {
  const Tensor x = node.In(0);
  if (x.rank() != 2) return node.Bad("takes a matrix");
  v1::DType dtype = x.dtype();
  if (node.HasAttribute("dtype")) {
    KILN_ASSIGN_OR_RETURN(dtype, DTypeOf(static_cast<int>(node.Int("dtype"))));
  }
  const Grid grid = GridOf(node, x.size(0), x.size(1));
  return Cast(grid.columns == grid.rows + node.Int("k"), dtype);
}

Result Trilu(Node& node) {
  const Tensor x = node.In(0);
  if (x.rank() < 2) return node.Bad("takes matrices");
  const Grid grid = GridOf(node, x.size(-2), x.size(-1));
  const Tensor diagonal = node.Has(1) ? grid.rows + Reshape(node.In(1), Sizes()) : grid.rows;
  return Where(node.Int("upper", 1) != 0 ? grid.columns >= diagonal : grid.columns <= diagonal, x, Filled(x, 0));
}

Result OneHot(Node& node) {
  Tensor ids = node.In(0);
  KILN_ASSIGN_OR_RETURN(const std::vector<double> depths, node.Reals(1));
  if (depths.size() != 1 || !(depths[0] >= 0 && depths[0] < 2147483648.0)) return node.Bad("the depth is no size");
  const auto depth = static_cast<int64_t>(depths[0]);
  if (node.In(2).rank() != 1 || node.In(2).size(0) != 2) return node.Bad("the values are (2,): off and on");
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", -1), ids.rank() + 1));
  if (!IsInteger(ids.dtype())) ids = Cast(ids, v1::INT64);
  ids = Unsqueeze(FromEnd(Cast(ids, v1::INT64), depth), axis);
  const Tensor hot = ids == Along(node.graph().Arange(depth, v1::INT64), axis, ids.rank());
  const Tensor off = Reshape(Part(node.In(2), 0, 0, 1), Sizes()), on = Reshape(Part(node.In(2), 0, 1, 2), Sizes());
  return Where(hot, on, off);
}

// How many there are depends on the values, so they must be known.
Result NonZero(Node& node) {
  const Known* known = node.Find(node.In(0));
  const auto values = known != nullptr ? known->Reals() : std::nullopt;
  if (!values) return node.Refuse("how many elements are not 0 must be known when the model is imported");
  const auto rank = static_cast<int64_t>(known->shape.size());
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(rank));
  for (size_t i = 0; i < values->size(); ++i) {
    if ((*values)[i] == 0) continue;
    int64_t rest = static_cast<int64_t>(i);
    for (int64_t axis = rank - 1; axis >= 0; --axis) {
      rows[axis].push_back(rest % known->shape[axis]);
      rest /= known->shape[axis];
    }
  }
  std::vector<int64_t> all;
  for (const auto& row : rows) all.insert(all.end(), row.begin(), row.end());
  const int64_t found = rows.empty() ? 0 : static_cast<int64_t>(rows[0].size());
  return Reshape(node.Make(all), {rank, found});
}

constexpr OpRow kRows[] = {
    {"Shape", 1, ShapeOf, 1, 1},     {"Size", 1, SizeOf, 1, 1},
    {"Constant", 1, Constant, 0, 0}, {"ConstantOfShape", 9, ConstantOfShape, 1, 1},
    {"Range", 11, Range, 3, 3},      {"EyeLike", 9, EyeLike, 1, 1},
    {"Trilu", 14, Trilu, 1, 2},      {"OneHot", 9, OneHot, 3, 3},
    {"NonZero", 9, NonZero, 1, 1},
};

}  // namespace

OpRows ShapeOps() { return kRows; }

}  // namespace kiln::onnx
