#include "compiler/ir/build.h"

#include <bit>
#include <vector>

#include "base/check.h"
#include "base/float_bits.h"

namespace kiln::compiler {

uint64_t WrapInt(DType dtype, uint64_t bits) {
  if (dtype == DType::kBool) return bits != 0;
  const int width = Bits(dtype);
  if (width >= 64) return bits;
  const uint64_t low = bits & ((uint64_t{1} << width) - 1);
  const bool negative = IsSigned(dtype) && (low >> (width - 1));
  return negative ? low | ~((uint64_t{1} << width) - 1) : low;
}

UOp* ConstBits(Graph& graph, DType dtype, uint64_t bits) { return graph.Make(Op::CONST, {}, ConstArg{dtype, bits}); }

UOp* ConstInt(Graph& graph, DType dtype, int64_t value) {
  return ConstBits(graph, dtype, WrapInt(dtype, static_cast<uint64_t>(value)));
}

UOp* ConstNumber(Graph& graph, DType dtype, double value) {
  if (IsIntOrBool(dtype)) return ConstInt(graph, dtype, static_cast<int64_t>(value));
  return ConstBits(graph, dtype, FloatToBits(ToWire(dtype), value));
}

UOp* Identity(Graph& graph, Op reduce_op, DType dtype) {
  if (reduce_op == Op::ADD) return ConstNumber(graph, dtype, 0);
  if (reduce_op == Op::MUL) return ConstNumber(graph, dtype, 1);
  KILN_CHECK(reduce_op == Op::MAX);
  if (IsFloat(dtype)) {
    const uint64_t least = FloatToBits(ToWire(dtype), -std::numeric_limits<double>::infinity());
    const bool has_infinity = least != QuietNanBits(ToWire(dtype));
    return has_infinity ? ConstBits(graph, dtype, least)
                        : ConstNumber(graph, dtype, std::numeric_limits<double>::lowest());  // saturates
  }
  if (!IsSigned(dtype)) return ConstInt(graph, dtype, 0);
  return ConstInt(graph, dtype, std::numeric_limits<int64_t>::min() >> (64 - Bits(dtype)));
}

UOp* Idx(Graph& graph, int64_t value) { return ConstInt(graph, kIndexType, value); }

UOp* ShapeSource(Graph& graph, const Shape& shape) {
  std::vector<UOp*> sizes;
  const bool constant = IsConst(shape);
  for (const Dim& size : shape) {
    UOp* number = size.IsConst() ? ConstInt(graph, constant ? DType::kWeakint : kIndexType, size.max()) : size.expr();
    sizes.push_back(number);
  }
  return graph.Make(Op::STACK, sizes);
}

UOp* Add(Graph& graph, UOp* a, UOp* b) { return graph.Make(Op::ADD, {a, b}); }
UOp* Mul(Graph& graph, UOp* a, UOp* b) { return graph.Make(Op::MUL, {a, b}); }
UOp* Lt(Graph& graph, UOp* a, UOp* b) { return graph.Make(Op::CMPLT, {a, b}); }
UOp* And(Graph& graph, UOp* a, UOp* b) { return graph.Make(Op::AND, {a, b}); }
UOp* Not(Graph& graph, UOp* a) { return graph.Make(Op::CMPNE, {a, ConstInt(graph, DType::kBool, 1)}); }
UOp* Where(Graph& graph, UOp* condition, UOp* a, UOp* b) { return graph.Make(Op::WHERE, {condition, a, b}); }
UOp* Cast(Graph& graph, UOp* x, DType dtype) { return x->dtype() == dtype ? x : graph.Make(Op::CAST, {x}, dtype); }
UOp* Bitcast(Graph& graph, UOp* x, DType dtype) {
  return x->dtype() == dtype ? x : graph.Make(Op::BITCAST, {x}, dtype);
}

UOp* Reshape(Graph& graph, UOp* x, const Shape& shape) {
  return x->shape() == shape ? x : graph.Make(Op::RESHAPE, {x, ShapeSource(graph, shape)});
}

UOp* Expand(Graph& graph, UOp* x, const Shape& shape) {
  return x->shape() == shape ? x : graph.Make(Op::EXPAND, {x, ShapeSource(graph, shape)});
}

}  // namespace kiln::compiler
