#include "compiler/ir/movement.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {

absl::Status CheckElements(const Shape& shape) {
  __int128 elements = 1;
  for (int64_t size : shape) {
    elements *= std::max<int64_t>(size, 1);  // so that no other shape of the same tensor overflows
    if (elements > kMaxElements) {
      return MakeError(v1::SIZE_OVERFLOW, absl::StrCat("a tensor of shape ", ToString(shape), " has more than ",
                                                       kMaxElements, " elements"));
    }
  }
  return absl::OkStatus();
}

Shape RowMajorStrides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

UOp* ReshapeTo(Graph& graph, UOp* x, const Shape& shape) { return x->shape() == shape ? x : Reshape(graph, x, shape); }

UOp* PermuteTo(Graph& graph, UOp* x, const std::vector<int64_t>& order) {
  return std::is_sorted(order.begin(), order.end()) ? x : graph.Make(Op::PERMUTE, {x}, AxesArg{order});
}

std::vector<int64_t> InverseOrder(const std::vector<int64_t>& order) {
  std::vector<int64_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) inverse[order[i]] = static_cast<int64_t>(i);
  return inverse;
}

UOp* PadWith(Graph& graph, UOp* x, const Shape& offset, const Shape& shape, double fill) {
  if (x->shape() == shape) return x;
  return graph.Make(Op::PAD, {x, ShapeSource(graph, offset), ShapeSource(graph, shape)},
                    ConstNumber(graph, x->dtype(), fill)->arg());
}

UOp* ShrinkTo(Graph& graph, UOp* x, const Shape& offset, const Shape& shape) {
  if (x->shape() == shape) return x;
  return graph.Make(Op::SHRINK, {x, ShapeSource(graph, offset), ShapeSource(graph, shape)});
}

UOp* ReduceOver(Graph& graph, UOp* x, Op reduce_op, std::vector<int64_t> axes) {
  return axes.empty() ? x : graph.Make(Op::REDUCE, {x}, ReduceArg{reduce_op, std::move(axes)});
}

UOp* SumTo(Graph& graph, UOp* x, const Shape& shape) {
  const size_t lead = x->shape().size() - shape.size();
  std::vector<int64_t> repeated;
  for (size_t i = 0; i < x->shape().size(); ++i) {
    if (i < lead || (shape[i - lead] == 1 && x->shape()[i] != 1)) repeated.push_back(static_cast<int64_t>(i));
  }
  return ReshapeTo(graph, ReduceOver(graph, x, Op::ADD, std::move(repeated)), shape);
}

UOp* Filled(Graph& graph, DType dtype, const Shape& shape, double number) {
  UOp* one = ReshapeTo(graph, ConstNumber(graph, dtype, number), Shape(shape.size(), 1));
  return one->shape() == shape ? one : Expand(graph, one, shape);
}

// A sum of digits, each with an axis of its own: 0..15, then 0, 16, ..., 240, and
// so on. Flattened, that counts.
UOp* Counting(Graph& graph, int64_t count) {
  constexpr int64_t kBase = 16;
  int64_t digits = 1, top = 1;  // how many there are, and what the highest counts in
  for (; top * kBase < count; top *= kBase) ++digits;
  const int64_t top_values = (count + top - 1) / top;
  UOp* sum = nullptr;
  int64_t weight = 1;
  for (int64_t digit = 0; digit < digits; ++digit, weight *= kBase) {
    const int64_t values = weight == top ? top_values : kBase;
    std::vector<UOp*> numbers;
    for (int64_t n = 0; n < values; ++n) numbers.push_back(Idx(graph, n * weight));
    Shape axis(digits, 1);
    axis[digits - 1 - digit] = values;
    UOp* number = ReshapeTo(graph, graph.Make(Op::STACK, numbers), axis);
    sum = sum == nullptr ? number : Add(graph, sum, number);
  }
  return ShrinkTo(graph, ReshapeTo(graph, sum, {top_values * top}), {0}, {count});
}

}  // namespace kiln::compiler
