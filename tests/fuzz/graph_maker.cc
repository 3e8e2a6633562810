#include "tests/fuzz/graph_maker.h"

#include <algorithm>
#include <utility>

#include "compiler/interp/scalar.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"

namespace kiln::testing {

using compiler::DType;

namespace {

constexpr int64_t kMaxTensorElements = 3000;

const std::vector<DType>& DTypes() {
  // Those that real graphs use most come more often.
  static const std::vector<DType>& dtypes = *new std::vector<DType>{
      DType::kBool,    DType::kInt8,    DType::kInt16,   DType::kInt32,   DType::kInt64,    DType::kUint8,
      DType::kUint16,  DType::kUint32,  DType::kUint64,  DType::kFloat16, DType::kBfloat16, DType::kFloat32,
      DType::kFloat64, DType::kFloat32, DType::kFloat32, DType::kInt32};
  return dtypes;
}

}  // namespace

GraphMaker::GraphMaker(uint64_t seed) : random_(seed) {
  const int64_t count = random_.In(1, 3);
  for (int64_t i = 0; i < count; ++i) AddStorage();
}

void GraphMaker::AddStorage() {
  Sizes shape;
  const int64_t rank = random_.In(0, 4);
  int64_t elements = 1;
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size = random_.Pick({1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33});
    if (random_.OneIn(40)) size = 0;
    if (elements * size > 600) size = 1;
    elements *= std::max<int64_t>(size, 1);
    shape.push_back(size);
  }
  const DType dtype = random_.Pick(DTypes());
  const auto slot = static_cast<uint32_t>(storage_.size() * 3);
  Value value{builder_.Param(slot, dtype, shape), dtype, shape, 8.0};
  storage_.push_back({value, value.node, false});
  Push(value);
}

void GraphMaker::Push(Value value) { pool_.push_back(std::move(value)); }

Value GraphMaker::Exact() {
  for (int i = 0; i < 20; ++i) {
    const Value& value = Any();
    if (value.ulp == 0) return value;
  }
  return storage_[0].initial;
}

Value GraphMaker::Const(DType dtype) {
  if (random_.OneIn(24)) return {builder_.Invalid(dtype), dtype, {}, 0.0};
  const int64_t n = random_.In(-4, 8);
  if (random_.OneIn(3) && !(compiler::IsUnsigned(dtype) && n < 0) && dtype != DType::kBool) {
    // Weak: takes its partner's dtype.
    return {builder_.ConstBits(DType::kWeakint, static_cast<uint64_t>(n)), dtype, {}, 8.0};
  }
  if (compiler::IsFloat(dtype))
    return {builder_.ConstBits(dtype, compiler::FloatBits(dtype, static_cast<double>(n))), dtype, {}, 8.0};
  const uint64_t bits = compiler::WrapInt(dtype, random_.OneIn(6) ? random_.Bits() : static_cast<uint64_t>(n));
  return {builder_.ConstBits(dtype, bits), dtype, {}, 8.0};
}

Value GraphMaker::CastTo(const Value& x, DType dtype) {
  if (x.dtype == dtype) return x;
  Value cast = x;
  cast.node = builder_.Cast(x.node, dtype);
  cast.dtype = dtype;
  if (!compiler::IsFloat(dtype)) {
    cast.bound = 0;
    cast.plain = true;
  } else if (x.dtype == DType::kBool) {
    cast.bound = 1;
  } else if (!compiler::IsFloat(x.dtype)) {
    cast.bound = compiler::ItemSize(x.dtype) == 1 ? 256 : kUnbounded;
  } else {
    // Rounding may go up a little, or past the greatest finite value.
    cast.bound = x.bound <= 256 ? x.bound : kUnbounded;
  }
  return cast;
}

Value GraphMaker::ToScalar(const Value& x) {
  std::vector<Node> zeros;
  for (size_t i = 0; i < x.shape.size(); ++i) zeros.push_back(builder_.ConstBits(DType::kInt32, 0));
  zeros.insert(zeros.begin(), x.node);
  Value scalar = x;
  scalar.node = builder_.Add(v1::INDEX, zeros);
  scalar.shape = {};
  return scalar;
}

Value GraphMaker::PartnerOf(const Value& x, DType dtype) {
  if (random_.OneIn(4)) return Const(dtype);
  Value partner = CastTo(Exact(), dtype);
  const auto both = Broadcast(x.shape, partner.shape);
  if (both.ok() && NumElements(*both) <= kMaxTensorElements) return partner;
  return ToScalar(partner);
}

Value GraphMaker::ConditionFor(const Value& x) {
  const Value other = PartnerOf(x, x.dtype);
  Value condition{builder_.Add(random_.Pick({v1::CMPLT, v1::CMPNE, v1::CMPGE, v1::CMPEQ}), {x.node, other.node}),
                  DType::kBool};
  condition.shape = *Broadcast(x.shape, other.shape);
  return condition;
}

void GraphMaker::Step() {
  switch (random_.Below(20)) {
    case 0:
    case 1:
    case 2:
    case 3:
    case 4: return Movement();
    case 5: return Unary();
    case 6:
    case 7:
    case 8:
    case 9: return Binary();
    case 10: return WhereStep();
    case 11: return CastStep();
    case 12:
    case 13: return ReduceStep();
    case 14: return IndexStep();
    case 15: return StackStep();
    case 16: return LoadStep();
    case 17:
    case 18: return StoreStep();
    default: return TranscendentalStep();
  }
}

void GraphMaker::StoreStep() {
  Storage& storage = storage_[random_.Below(storage_.size())];
  // The target: all of it, a box of it, or one row. Each update stands behind
  // the one before: two in no order would leave the outcome open.
  Value target = storage.initial;
  target.node = storage.after;
  if (!target.shape.empty() && random_.OneIn(3)) {
    Sizes offset, shape;
    for (int64_t size : target.shape) {
      const int64_t kept = random_.In(0, size);
      shape.push_back(kept);
      offset.push_back(random_.In(0, size - kept));
    }
    target.node = builder_.Shrink(target.node, offset, shape);
    target.shape = shape;
  } else if (!target.shape.empty() && random_.OneIn(4)) {
    const Node row = builder_.ConstBits(DType::kInt64, static_cast<uint64_t>(random_.In(-1, target.shape[0])));
    target.node = builder_.Add(v1::INDEX, {target.node, row});
    target.shape.erase(target.shape.begin());
  } else if (random_.OneIn(4)) {
    std::vector<int64_t> order;
    for (size_t i = target.shape.size(); i-- > 0;) order.push_back(static_cast<int64_t>(i));
    target.node = builder_.Permute(target.node, order);
    std::reverse(target.shape.begin(), target.shape.end());
  }

  Value value = PartnerOf(target, target.dtype);
  const auto both = Broadcast(target.shape, value.shape);
  if (!both.ok() || *both != target.shape) value = ToScalar(value);
  Node store = 0;
  if (random_.OneIn(4)) {
    Value gate = ConditionFor(value);
    const auto gated = Broadcast(target.shape, gate.shape);
    if (!gated.ok() || *gated != target.shape) gate = ToScalar(gate);
    store = builder_.Add(v1::STORE, {target.node, value.node, gate.node});
  } else {
    store = builder_.Add(v1::STORE, {target.node, value.node});
  }
  storage.initial.bound = std::max(storage.initial.bound, value.bound);
  storage.initial.plain &= value.plain;
  storage.stored = true;
  if (random_.OneIn(6)) store = builder_.Add(v1::GROUP, {store});
  storage.after = builder_.Add(v1::AFTER, {storage.initial.node, store});
  loose_stores_.push_back(store);
  Value now = storage.initial;
  now.node = storage.after;
  Push(now);
}

void GraphMaker::Finish(std::vector<int64_t>& result_ulps) {
  std::vector<Node> sources;
  auto add = [&](const Value& value) {
    sources.push_back(value.node);
    result_ulps.push_back(value.ulp);
  };
  add(pool_.back());
  const int64_t more = random_.In(0, 3);
  for (int64_t i = 0; i < more; ++i) add(Any());
  for (const Storage& storage : storage_) {
    if (!storage.stored || random_.OneIn(2)) continue;
    Value now = storage.initial;
    now.node = storage.after;
    add(now);
  }
  for (Node store : loose_stores_) {
    if (random_.OneIn(2)) sources.push_back(store);
  }
  builder_.Add(random_.OneIn(4) ? v1::SINK : v1::TUPLE, sources);
}

}  // namespace kiln::testing
