// What several families of ops need.
#ifndef KILN_MODELS_ONNX_OPS_COMMON_H_
#define KILN_MODELS_ONNX_OPS_COMMON_H_

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/dtype_names.h"
#include "base/error.h"
#include "client/cpp/ops.h"
#include "models/onnx/op_table.h"
#include "models/onnx/tensor_proto.h"

namespace kiln::onnx {

using client::Shape;
using client::Size;
using client::Sizes;
using client::Tensor;
using Result = absl::StatusOr<Outputs>;

// 0, 1, … rank - 1.
std::vector<int64_t> AllAxes(int64_t rank);

// Floats narrower than 32 bits are computed in float32 and rounded once at the end, as
// the standard's own implementations do.
bool IsNarrow(v1::DType dtype);
Tensor Widened(Tensor x);
template <typename F>
Tensor InWide(Tensor x, F&& f) {
  return client::Cast(f(Widened(x)), x.dtype());
}

// -- Rules that the builder does not have
// Toward zero, and the remainder with the dividend's sign: integers.
Tensor TruncDiv(Tensor a, Tensor b);
Tensor TruncMod(Tensor a, Tensor b);
// The shape that all of them broadcast to; an error is kept in the graph.
Tensor BroadcastAs(Tensor x, Tensor like);
// Half to even.
Tensor RoundEven(Tensor x);
// Rounds half to even, clips to what `dtype` holds, and casts.
Tensor Saturated(Tensor x, v1::DType dtype);
// The same of whole numbers, for an integer `dtype`: what quantizing ends with.
Tensor SaturatedWhole(Tensor x, v1::DType dtype);
// Joins along an axis exactly, -0 and all.
Tensor Joined(const std::vector<Tensor>& tensors, int64_t axis);
// Along an axis, from begin to end.
Tensor Part(Tensor x, int64_t axis, const Size& begin, const Size& end);
// A vector along one axis of a tensor of so many.
Tensor Along(Tensor vector, int64_t axis, int64_t rank);
// Indices of which negative ones count from the end.
Tensor FromEnd(Tensor index, const Size& size);
// The least and the greatest value of a dtype.
Tensor Least(client::Graph& graph, v1::DType dtype);
Tensor Greatest(client::Graph& graph, v1::DType dtype);
Tensor Filled(Tensor like, client::Scalar value);

// Rows of ops (op_table.h) that are one expression: of x; of x, computed by InWide; of a and b.
#define KILN_UNARY(name, since, expression) \
  {name, since,                             \
   [](Node& node) -> Result {               \
     const Tensor x = node.In(0);           \
     return expression;                     \
   },                                       \
   1, 1}
#define KILN_UNARY_IN_WIDE(name, since, expression) \
  {name, since, [](Node& node) -> Result { return InWide(node.In(0), [&](Tensor x) { return expression; }); }, 1, 1}
#define KILN_BINARY(name, since, expression)      \
  {name, since,                                   \
   [](Node& node) -> Result {                     \
     const Tensor a = node.In(0), b = node.In(1); \
     return expression;                           \
   },                                             \
   2, 2}

}  // namespace kiln::onnx

#endif  // KILN_MODELS_ONNX_OPS_COMMON_H_
