// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"

#include <limits>

namespace kiln::onnx {

using namespace client;  // NOLINT: the builder's functions are this room's words

std::vector<int64_t> AllAxes(int64_t rank) {
  std::vector<int64_t> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

bool IsNarrow(v1::DType dtype) { return IsFloat(dtype) && DTypeSize(dtype) < 4; }

Tensor Widened(Tensor x) { return IsNarrow(x.dtype()) ? Cast(x, v1::FLOAT32) : x; }

namespace {

Tensor Divided(v1::Op op, Tensor a, Tensor b) {
  if (!a.valid() || !b.valid()) return a.valid() ? b : a;
  Graph& graph = *a.graph();
  const auto shape = BroadcastShape(a.sizes(), b.sizes());
  if (!shape || a.dtype() != b.dtype()) {
    return graph.Fail(v1::SHAPE_MISMATCH, "Div",
                      absl::StrCat(TypeText(a.dtype(), a.sizes()), " and ", TypeText(b.dtype(), b.sizes())));
  }
  return graph.Node(op, {a.node(), b.node()}, a.dtype(), *shape);
}

}  // namespace

Tensor TruncDiv(Tensor a, Tensor b) { return Divided(v1::CDIV, a, b); }
Tensor TruncMod(Tensor a, Tensor b) { return Divided(v1::CMOD, a, b); }

Tensor BroadcastAs(Tensor x, Tensor like) {
  if (!x.valid() || !like.valid()) return x.valid() ? like : x;
  const auto shape = BroadcastShape(x.sizes(), like.sizes());
  return BroadcastTo(x, shape ? *shape : like.sizes());
}

// Beside a number as great as 2^23 there is no room in a float32 for digits after the point: adding it rounds to the
// nearest, halves to the even one. What is as great itself is whole. The sign is put aside by its bit, so that a
// product before this is rounded first, and not multiplied and added at once. Its derivative is 0.
Tensor RoundEven(Tensor x) {
  if (!x.valid()) return x;
  const bool is_double = x.dtype() == v1::FLOAT64;
  const v1::DType floats = is_double ? v1::FLOAT64 : v1::FLOAT32, bits = is_double ? v1::UINT64 : v1::UINT32;
  const uint64_t sign = uint64_t{1} << (is_double ? 63 : 31);
  const double great = is_double ? 0x1p52 : 0x1p23;
  const Tensor wide = Bitcast(Cast(Detach(x), floats), bits);
  const Tensor size = Bitcast(wide & (sign - 1), floats);
  const Tensor whole = Bitcast(Where(size < great, size + great - great, size), bits);
  return Cast(Bitcast(whole | (wide & sign), floats), x.dtype());
}

Tensor Saturated(Tensor x, v1::DType dtype) {
  if (!x.valid()) return x;
  if (IsFloat(dtype)) return Cast(x, dtype);
  return SaturatedWhole(RoundEven(x), dtype);
}

Tensor SaturatedWhole(Tensor x, v1::DType dtype) {
  if (!x.valid()) return x;
  const double most = static_cast<double>(GreatestInteger(dtype));
  return Cast(Clamp(x, IsSigned(dtype) ? -most - 1 : 0, most), dtype);
}

Tensor Joined(const std::vector<Tensor>& tensors, int64_t axis) {
  std::vector<Tensor> full;
  for (const Tensor& x : tensors) {
    if (x.valid() && !x.sizes().IsConst()) return Concat(tensors, axis);
    if (x.valid() && (x.rank() == 0 || *x.sizes().Count().number() > 0)) full.push_back(x);
  }
  if (full.empty()) return Concat(tensors, axis);
  if (full.size() == 1) return full[0];
  if (!IsFloat(full[0].dtype())) return Concat(full, axis);
  // As integers, for a sum with zeros loses the sign of a zero.
  static constexpr v1::DType kBits[] = {v1::UINT8, v1::UINT16, v1::UINT32, v1::UINT64};
  const int64_t size = DTypeSize(full[0].dtype());
  const v1::DType bits = kBits[size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : 3], dtype = full[0].dtype();
  for (Tensor& x : full) {
    if (x.dtype() != dtype) return Concat(full, axis);
    x = Bitcast(x, bits);
  }
  return Bitcast(Concat(full, axis), dtype);
}

Tensor Part(Tensor x, int64_t axis, const Size& begin, const Size& end) {
  if (!x.valid()) return x;
  AxisRanges ranges;
  for (const Size& size : x.sizes()) ranges.push_back({0, size});
  if (axis >= 0 && axis < x.rank()) ranges[axis] = {begin, end};
  return Shrink(x, ranges);
}

Tensor Along(Tensor vector, int64_t axis, int64_t rank) {
  if (!vector.valid()) return vector;
  Sizes shape(static_cast<size_t>(rank), 1);
  if (axis >= 0 && axis < rank) shape[axis] = vector.sizes().Count();
  return Reshape(vector, shape);
}

Tensor FromEnd(Tensor index, const Size& size) {
  if (!index.valid()) return index;
  return Where(index < 0, index + index.graph()->Number(size, index.dtype()), index);
}

Tensor Least(Graph& graph, v1::DType dtype) {
  if (IsFloat(dtype)) return graph.Constant(-std::numeric_limits<double>::infinity(), dtype);
  if (dtype == v1::BOOL || !IsSigned(dtype)) return graph.Constant(0, dtype);
  return graph.Constant(-static_cast<int64_t>(GreatestInteger(dtype)) - 1, dtype);
}

Tensor Greatest(Graph& graph, v1::DType dtype) {
  if (IsFloat(dtype)) return graph.Constant(std::numeric_limits<double>::infinity(), dtype);
  return graph.Constant(dtype == v1::BOOL ? uint64_t{1} : GreatestInteger(dtype), dtype);
}

Tensor Filled(Tensor like, Scalar value) {
  return like.valid() ? like.graph()->Full(like.sizes(), value, like.dtype()) : like;
}

}  // namespace kiln::onnx
