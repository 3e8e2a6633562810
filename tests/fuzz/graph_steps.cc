// GraphMaker's steps: each makes one more value out of those in the pool.
#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/ir/infer.h"
#include "tests/fuzz/graph_maker.h"

namespace kiln::testing {

using compiler::DType;

namespace {

constexpr int64_t kMaxTensorElements = 3000;
constexpr size_t kMaxAxes = 5;

// Any way to write `elements` as a product.
Sizes RandomFactors(int64_t elements, Random& random) {
  Sizes shape;
  while (elements > 1 && shape.size() < 3) {
    std::vector<int64_t> divisors;
    for (int64_t d = 1; d <= elements; ++d) {
      if (elements % d == 0) divisors.push_back(d);
    }
    shape.push_back(random.Pick(divisors));
    elements /= shape.back();
  }
  if (elements != 1 || random.OneIn(3)) shape.push_back(elements);
  return shape;
}

}  // namespace

void GraphMaker::Movement() {
  const Value& x = Any();
  Value y = x;
  switch (random_.Below(7)) {
    case 0: {
      std::vector<int64_t> order(x.shape.size());
      for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
      for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.Below(i)]);
      for (size_t i = 0; i < order.size(); ++i) y.shape[i] = x.shape[order[i]];
      y.node = builder_.Permute(x.node, order);
      return Push(y);
    }
    case 1: {
      std::vector<int64_t> flags;
      for (size_t i = 0; i < x.shape.size(); ++i) flags.push_back(random_.OneIn(2));
      y.node = builder_.Flip(x.node, flags);
      return Push(y);
    }
    case 2: return ReshapeStep(Value(x));
    case 3: return ShrinkStep(Value(x));
    case 4:
    case 5: return PadStep(Value(x));
    default: return ExpandStep(Value(x));
  }
}

void GraphMaker::ReshapeStep(const Value& x) {
  Value y = x;
  if (NumElements(x.shape) > 0) {
    y.shape = RandomFactors(NumElements(x.shape), random_);
  } else {
    y.shape = random_.OneIn(2) ? Sizes{0} : Sizes{3, 0, 2};
  }
  y.node = builder_.Reshape(x.node, y.shape);
  Push(y);
}

void GraphMaker::ShrinkStep(const Value& x) {
  Value y = x;
  Sizes offset;
  for (int64_t& size : y.shape) {
    const int64_t kept = random_.OneIn(20) ? 0 : random_.In(std::min<int64_t>(size, 1), size);
    offset.push_back(random_.In(0, size - kept));
    size = kept;
  }
  y.node = builder_.Shrink(x.node, offset, y.shape);
  Push(y);
}

void GraphMaker::PadStep(const Value& x) {
  Value y = x;
  Sizes offset;
  for (int64_t& size : y.shape) {
    const int64_t before = random_.In(0, 2), after = random_.In(0, 2);
    offset.push_back(before);
    size += before + after;
  }
  if (NumElements(y.shape) > kMaxTensorElements) return;
  Node fill = 0;
  const bool filled = random_.OneIn(2);
  if (filled) fill = builder_.ConstBits(x.dtype, 0);  // where its message is copied from
  y.node = builder_.Pad(x.node, offset, y.shape);
  if (filled)
    *builder_.last()->mutable_pad()->mutable_fill() = builder_.graph().nodes(static_cast<int>(fill)).constant();
  Push(y);
}

void GraphMaker::ExpandStep(const Value& x) {
  Value y = x;
  if (random_.OneIn(2) && x.shape.size() < kMaxAxes) {
    y.shape.insert(y.shape.begin() + static_cast<int64_t>(random_.Below(x.shape.size() + 1)), 1);
    y.node = builder_.Reshape(x.node, y.shape);
  }
  for (int64_t& size : y.shape) {
    if (size == 1 && random_.OneIn(2)) size = random_.Pick({0, 2, 3, 5, 8});
  }
  if (NumElements(y.shape) > kMaxTensorElements) return;
  y.node = builder_.Expand(y.node, y.shape);
  Push(y);
}

void GraphMaker::Unary() {
  const Value x = Exact();
  Value y = x;
  const v1::Op op =
      random_.Pick({v1::NEG, v1::TRUNC, v1::NOT, v1::SQRT, v1::RECIPROCAL, v1::DETACH, v1::CONTIGUOUS_BACKWARD});
  if (op == v1::NOT && x.dtype != DType::kBool) return;
  if ((op == v1::SQRT || op == v1::RECIPROCAL) && (!compiler::IsFloat(x.dtype) || !x.plain)) return;
  y.node = builder_.Add(op, {x.node});
  if (op == v1::NEG || op == v1::TRUNC) y.plain = !compiler::IsFloat(x.dtype);
  if (op == v1::SQRT || op == v1::RECIPROCAL) {
    y.bound = kUnbounded;
    y.plain = false;
  }
  Push(y);
}

void GraphMaker::Binary() {
  const Value a = Exact();
  const Value b = PartnerOf(a, a.dtype);
  Value y = a;
  y.shape = *Broadcast(a.shape, b.shape);
  std::vector<v1::Op> ops = {v1::ADD, v1::MUL, v1::MAX, v1::SUB, v1::CMPLT, v1::CMPNE, v1::CMPGT, v1::CMPEQ};
  if (compiler::IsFloat(a.dtype)) {
    if (a.plain && b.plain) ops.push_back(v1::FDIV);
  } else {
    for (v1::Op op : {v1::FLOORDIV, v1::FLOORMOD, v1::CDIV, v1::CMOD, v1::XOR, v1::OR, v1::AND, v1::SHL, v1::SHR})
      ops.push_back(op);
    if (a.dtype == DType::kUint64) ops.push_back(v1::THREEFRY);
  }
  const v1::Op op = random_.Pick(ops);
  y.node = random_.OneIn(4) ? builder_.Add(op, {b.node, a.node}) : builder_.Add(op, {a.node, b.node});
  if (op == v1::CMPLT || op == v1::CMPNE || op == v1::CMPGT || op == v1::CMPEQ) {
    y.dtype = DType::kBool;
    y.plain = true;
    return Push(y);
  }
  y.plain = !compiler::IsFloat(a.dtype);
  y.bound = op == v1::MUL ? a.bound * b.bound : op == v1::FDIV ? kUnbounded : a.bound + b.bound;
  if (!(y.bound <= 256)) y.bound = kUnbounded;  // beyond it, the narrow floats round
  Push(y);
}

void GraphMaker::WhereStep() {
  const Value a = Exact();
  const Value b = PartnerOf(a, a.dtype);
  Value y = a;
  y.shape = *Broadcast(a.shape, b.shape);
  const Value condition = random_.OneIn(2) ? ConditionFor(a) : PartnerOf(y, DType::kBool);
  const auto shape = Broadcast(y.shape, condition.shape);
  if (!shape.ok() || NumElements(*shape) > kMaxTensorElements) return;
  y.shape = *shape;
  y.node = builder_.Add(v1::WHERE, {condition.node, a.node, b.node});
  y.bound = std::max(a.bound, b.bound);
  y.plain = a.plain && b.plain;
  Push(y);
}

void GraphMaker::CastStep() {
  const Value x = Exact();
  const DType dtype = random_.Pick({DType::kBool, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
                                    DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64, DType::kFloat16,
                                    DType::kBfloat16, DType::kFloat32, DType::kFloat64});
  if (random_.OneIn(2) || !x.plain || x.dtype == dtype) return Push(CastTo(x, dtype));
  Value y = x;
  const int from = compiler::ItemSize(x.dtype), to = compiler::ItemSize(dtype);
  if (from != to && (x.shape.empty() || x.shape.back() * from % to != 0)) return;
  if (from != to) y.shape.back() = x.shape.back() * from / to;
  y.node = builder_.Bitcast(x.node, dtype);
  y.dtype = dtype;
  y.bound = kUnbounded;
  y.plain = !compiler::IsFloat(dtype);  // any pattern, NaNs too
  Push(y);
}

void GraphMaker::ReduceStep() {
  const Value x = Exact();
  std::vector<int64_t> axes;
  Value y = x;
  double count = 1;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (random_.OneIn(2)) continue;
    axes.push_back(static_cast<int64_t>(i));
    count *= static_cast<double>(x.shape[i]);
    y.shape[i] = 1;
  }
  v1::Op op = random_.Pick({v1::ADD, v1::ADD, v1::MAX, v1::MUL});
  if (compiler::IsFloat(x.dtype)) {
    // Exact in float32, in any order, or else only MAX will do.
    const double most = op == v1::MUL ? std::pow(std::max(x.bound, 1.0), count) : x.bound * count;
    if (!(most <= 1 << 24)) op = v1::MAX;
    if (op != v1::MAX) y.bound = most <= 256 ? most : kUnbounded;
    y.plain = false;
  }
  y.node = builder_.Reduce(x.node, op, axes);
  Push(y);
}

void GraphMaker::IndexStep() {
  const Value x = Any();
  if (x.shape.empty()) return;
  std::vector<Node> src = {x.node};
  Value y = x;
  y.shape = {};
  const size_t indices = 1 + random_.Below(std::min<size_t>(x.shape.size(), 2));
  for (size_t i = 0; i < indices; ++i) {
    const DType dtype = random_.Pick({DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8, DType::kUint64});
    Value index =
        random_.OneIn(3)
            ? Value{builder_.ConstBits(DType::kInt64, static_cast<uint64_t>(random_.In(-1, x.shape[i]))), DType::kInt64}
            : CastTo(Exact(), dtype);
    if (index.shape.size() > 2 || NumElements(index.shape) > 40) index = ToScalar(index);
    if (random_.OneIn(2) && x.shape[i] > 0 && x.shape[i] < 128) {  // all in range
      const Node size = builder_.ConstBits(index.dtype, static_cast<uint64_t>(x.shape[i]));
      index.node = builder_.Add(v1::FLOORMOD, {index.node, size});
    }
    src.push_back(index.node);
    y.shape.insert(y.shape.end(), index.shape.begin(), index.shape.end());
  }
  y.shape.insert(y.shape.end(), x.shape.begin() + static_cast<int64_t>(indices), x.shape.end());
  if (NumElements(y.shape) > kMaxTensorElements || y.shape.size() > kMaxAxes) return;
  y.node = builder_.Add(v1::INDEX, src);
  Push(y);
}

void GraphMaker::StackStep() {
  const Value x = Exact();
  std::vector<Node> src;
  Value y = x;
  const int64_t count = random_.In(1, 3);
  if (NumElements(x.shape) * count > kMaxTensorElements || x.shape.size() >= kMaxAxes) return;
  for (int64_t i = 0; i < count; ++i) {
    Value part = random_.OneIn(2) ? x : CastTo(Exact(), x.dtype);
    if (part.shape != x.shape) part = x;
    src.push_back(part.node);
    y.bound = std::max(y.bound, part.bound);
    y.plain &= part.plain;
  }
  y.shape.insert(y.shape.begin(), count);
  y.node = builder_.Add(v1::STACK, src);
  Push(y);
}

void GraphMaker::LoadStep() {
  const Value x = Exact();
  Value y = x;
  if (random_.OneIn(2)) {
    y.node = builder_.Add(random_.Pick({v1::CONTIGUOUS, v1::LOAD, v1::COPY}), {x.node});
    return Push(y);
  }
  Value alt = PartnerOf(x, x.dtype);
  if (alt.shape != x.shape) alt = ToScalar(alt);
  Value gate = ConditionFor(x);
  if (gate.shape != x.shape) gate = ToScalar(gate);
  y.node = builder_.Add(v1::LOAD, {x.node, alt.node, gate.node});
  y.bound = std::max(x.bound, alt.bound);
  y.plain = x.plain && alt.plain;
  Push(y);
}

void GraphMaker::TranscendentalStep() {
  const Value x = Exact();
  if (!compiler::IsFloat(x.dtype)) return;
  Value y = x;
  const v1::Op op = random_.Pick({v1::EXP2, v1::LOG2, v1::SIN, v1::POW});
  if (op == v1::POW) {
    const Value b = PartnerOf(x, x.dtype);
    y.shape = *Broadcast(x.shape, b.shape);
    y.node = builder_.Add(op, {x.node, b.node});
  } else {
    y.node = builder_.Add(op, {x.node});
  }
  // The two engines may err to either side.
  y.ulp = compiler::IsNarrowFloat(x.dtype) ? 1 : (op == v1::POW ? 4 : 1) * (compiler::ItemSize(x.dtype) == 8 ? 5 : 3);
  y.plain = false;
  Push(y);
}

}  // namespace kiln::testing
