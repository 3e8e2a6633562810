// Elementwise ops, reductions, and reads and writes of memory.
#include <vector>

#include "compiler/interp/eval.h"
#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"

namespace kiln::compiler {
namespace {

uint64_t IdentityBits(Op reduce_op, DType dtype) {
  Graph graph;
  return Identity(graph, reduce_op, dtype)->arg_as<ConstArg>().bits;
}

// A position in each operand, moving together over the broadcast shape.
std::vector<Shape> AllBroadcastStrides(Operands sources, const Shape& shape) {
  std::vector<Shape> strides;
  for (const Tensor* source : sources) strides.push_back(BroadcastStrides(source->shape, shape));
  return strides;
}

}  // namespace

Tensor EvalElementwise(const UOp& uop, Operands sources) {
  Tensor result(uop.dtype(), uop.shape());
  const bool where = uop.op() == Op::WHERE;
  const DType from = sources[where ? 1 : 0]->dtype;
  const std::vector<Shape> strides = AllBroadcastStrides(sources, result.shape);
  std::vector<uint64_t> operands(sources.size());
  std::vector<uint8_t> valid(sources.size());
  int64_t i = 0;
  for (Odometer at(result.shape); !at.done(); at.Next(), ++i) {
    bool all_valid = true;
    for (size_t k = 0; k < sources.size(); ++k) {
      const int64_t j = at.Dot(strides[k]);
      operands[k] = sources[k]->bits[j];
      valid[k] = sources[k]->valid[j];
      all_valid &= valid[k] != 0;
    }
    const bool here = where ? valid[0] && valid[operands[0] != 0 ? 1 : 2] : all_valid;
    if (here) result.Set(i, EvalScalar(uop.op(), from, result.dtype, operands));
  }
  return result;
}

Tensor EvalReduce(const UOp& uop, const Tensor& x) {
  const ReduceArg& arg = uop.arg_as<ReduceArg>();
  // Narrow floats are summed and multiplied in float32 and rounded once.
  const bool widen = IsNarrowFloat(x.dtype) && arg.op != Op::MAX;
  const DType accumulator = widen ? DType::kFloat32 : x.dtype;
  Tensor result(accumulator, uop.shape());
  const uint64_t identity = IdentityBits(arg.op, accumulator);
  for (int64_t i = 0; i < result.size(); ++i) result.Set(i, identity);

  Shape strides = Strides(result.shape);
  for (int64_t axis : arg.axes) strides[axis] = 0;
  int64_t i = 0;
  for (Odometer at(x.shape); !at.done(); at.Next(), ++i) {
    if (!x.valid[i]) continue;
    const uint64_t element = widen ? EvalScalar(Op::CAST, x.dtype, accumulator, {x.bits[i]}) : x.bits[i];
    uint64_t& sum = result.bits[at.Dot(strides)];
    sum = EvalScalar(arg.op, accumulator, accumulator, {sum, element});
  }
  if (widen) {
    for (uint64_t& bits : result.bits) bits = EvalScalar(Op::CAST, accumulator, x.dtype, {bits});
    result.dtype = x.dtype;
  }
  return result;
}

Tensor EvalLoad(const UOp& uop, Operands sources) {
  const Tensor& x = *sources[0];
  Tensor result(uop.dtype(), uop.shape());
  const std::vector<Shape> strides = AllBroadcastStrides(sources, result.shape);
  int64_t i = 0;
  for (Odometer at(result.shape); !at.done(); at.Next(), ++i) {
    const Tensor* from = &x;
    int64_t j = i;
    if (sources.size() == 3) {
      const int64_t g = at.Dot(strides[2]);
      if (!sources[2]->valid[g] || sources[2]->bits[g] == 0) {
        from = sources[1];
        j = at.Dot(strides[1]);
      }
    }
    result.Set(i, from->valid[j] ? from->bits[j] : 0);
  }
  return result;
}

Tensor EvalStore(const Tensor& before, const Tensor& address, const Tensor& value, const Tensor* gate) {
  Tensor after = before;
  const Shape value_strides = BroadcastStrides(value.shape, address.shape);
  const Shape gate_strides = gate == nullptr ? Shape() : BroadcastStrides(gate->shape, address.shape);
  int64_t i = 0;
  for (Odometer at(address.shape); !at.done(); at.Next(), ++i) {
    const int64_t j = at.Dot(value_strides);
    if (!address.valid[i] || !value.valid[j]) continue;
    if (gate != nullptr) {
      const int64_t g = at.Dot(gate_strides);
      if (!gate->valid[g] || gate->bits[g] == 0) continue;
    }
    after.Set(static_cast<int64_t>(address.bits[i]), value.bits[j]);
  }
  return after;
}

}  // namespace kiln::compiler
