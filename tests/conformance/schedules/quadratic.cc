#include "tests/conformance/schedules/quadratic.h"

#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"

namespace kiln::testing {

using compiler::DType;

Node Quadratic::Number(DType dtype, int64_t value) {
  return ConstBits(dtype, compiler::IsFloat(dtype) ? compiler::FloatBits(dtype, static_cast<double>(value))
                                                   : compiler::WrapInt(dtype, static_cast<uint64_t>(value)));
}

Node Quadratic::Reduced(Node x, v1::Op op, int64_t axis, absl::Span<const int64_t> shape) {
  return Reshape(Reduce(x, op, {axis}), shape);
}

Node Quadratic::Windows(Node x, int64_t n) {
  const int64_t padded = 2 * n - 1;
  x = Pad(x, {n - 1}, {padded});
  x = Expand(Reshape(x, {1, padded}), {n + 1, padded});
  x = Shrink(Reshape(x, {(n + 1) * padded}), {0}, {2 * n * n});
  return Shrink(Reshape(x, {n, 2 * n}), {0, 0}, {n, n});
}

Node Quadratic::PrefixSum(Node x, int64_t n) { return Reduced(Windows(x, n), v1::ADD, 1, {n}); }

Node Quadratic::Arange(int64_t n, DType dtype) {
  const Node ones = Expand(Reshape(Number(dtype, 1), {1}), {n});
  return Add(v1::ADD, {PrefixSum(ones, n), Number(dtype, -1)});
}

Node Quadratic::Equal(Node a, Node b) { return Add(v1::CMPNE, {Add(v1::CMPNE, {a, b}), ConstBits(DType::kBool, 1)}); }

Node Quadratic::OneHot(Node x, int64_t rows, int64_t n, DType dtype) {
  return Equal(Reshape(Arange(n, dtype), {1, n}), Reshape(x, {rows, 1}));
}

Node Quadratic::Gather(Node table, int64_t k, Node idx, int64_t d, DType dtype, DType index_dtype) {
  const Node mask = Cast(Equal(Reshape(Arange(k, index_dtype), {k, 1}), Reshape(idx, {1, d})), dtype);
  return Reduced(Add(v1::MUL, {Reshape(table, {k, 1}), mask}), v1::ADD, 0, {d});
}

Node Quadratic::Embedding(Node table, int64_t k, int64_t width, Node idx, int64_t d, DType dtype) {
  const Node mask = Cast(OneHot(idx, d, k, DType::kInt32), dtype);
  const Node product = Add(v1::MUL, {Reshape(mask, {d, k, 1}), Reshape(table, {1, k, width})});
  return Reduced(product, v1::ADD, 1, {d, width});
}

Node Quadratic::ScatterAdd(Node target, int64_t k, Node idx, Node value, int64_t d, DType dtype) {
  const Node mask = Cast(Equal(Reshape(Arange(k, DType::kInt32), {k, 1}), Reshape(idx, {1, d})), dtype);
  const Node added = Reduced(Add(v1::MUL, {mask, Reshape(value, {1, d})}), v1::ADD, 1, {k});
  return Add(v1::ADD, {target, added});
}

}  // namespace kiln::testing
