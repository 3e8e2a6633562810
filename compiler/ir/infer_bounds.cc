#include <algorithm>

#include "compiler/ir/infer.h"
#include "compiler/ir/interval.h"

// min_max by interval arithmetic (interval.h): one row an op of how the bounds
// of a node follow from those of its sources.
namespace kiln::compiler {
namespace {

using Int = __int128;

// x op x says more than x op y.
Bounds OfSame(Op op, const Bounds& x, DType dtype) {
  switch (op) {
    case Op::CMPLT:
    case Op::CMPNE: return Interval(0, 0);
    case Op::MUL: {
      constexpr Int kHalf = Int{1} << 63;  // whose square fits
      if (dtype == DType::kBool || x.min < -kHalf || x.max > kHalf) return OfBinary(op, x, x, dtype);
      const Int least = x.min <= 0 && x.max >= 0 ? 0 : std::min(x.min * x.min, x.max * x.max);
      return Wrapped(Interval(least, std::max(x.min * x.min, x.max * x.max)), dtype);
    }
    case Op::XOR: return Interval(0, 0);
    case Op::AND:
    case Op::OR:
    case Op::MAX: return x;
    default: return OfBinary(op, x, x, dtype);
  }
}

// A sum of at most so many elements: fewer where some are Invalid.
Bounds OfReduce(const UOp& uop, DType dtype) {
  const Bounds& each = uop.src(0)->bounds();
  const Op reduce_op = uop.arg_as<ReduceArg>().op;
  if (dtype == DType::kBool) return BoundsOf(dtype);
  if (reduce_op == Op::MAX) return Interval(BoundsOf(dtype).min, each.max);
  if (reduce_op != Op::ADD) return BoundsOf(dtype);
  Int count = 1;
  for (const int64_t axis : uop.arg_as<ReduceArg>().axes) {
    if (__builtin_mul_overflow(count, Int{uop.src(0)->shape()[static_cast<size_t>(axis)].max()}, &count))
      return BoundsOf(dtype);
  }
  for (const UOp* range : uop.src().subspan(1)) {
    if (__builtin_mul_overflow(count, range->bounds().max + 1, &count)) return BoundsOf(dtype);
  }
  return OfBinary(Op::MUL, Hull(each, Interval(0, 0)), Interval(std::min<Int>(count, 1), count), dtype);
}

// One branch, either, or the lesser or the greater of two.
Bounds OfWhere(const UOp& uop) {
  const UOp *condition = uop.src(0), *a = uop.src(1), *b = uop.src(2);
  if (condition->bounds().IsConst()) return (condition->bounds().min != 0 ? a : b)->bounds();
  if (condition->op() == Op::CMPLT) {
    const UOp *less = condition->src(0), *more = condition->src(1);
    if (less == a && more == b)
      return Interval(std::min(a->bounds().min, b->bounds().min), std::min(a->bounds().max, b->bounds().max));
    if (less == b && more == a) return OfBinary(Op::MAX, a->bounds(), b->bounds(), uop.dtype());
  }
  return Hull(a->bounds(), b->bounds());
}

Bounds OfConst(const UOp& uop) {
  const ConstArg& value = uop.arg_as<ConstArg>();
  if (value.invalid) return BoundsOf(uop.dtype());
  const Int n = IsSigned(uop.dtype()) ? Int{static_cast<int64_t>(value.bits)} : Int{value.bits};
  return Interval(n, n);
}

Bounds OfAlu(const UOp& uop, DType dtype) {
  const Op op = uop.op();
  if (Is(op, kBinary)) {
    const Bounds& a = uop.src(0)->bounds();
    const Bounds& b = uop.src(1)->bounds();
    if (uop.src(0) == uop.src(1) && a.known) return OfSame(op, a, dtype);  // NaN is not itself
    return IsComparison(op) ? OfComparison(op, a, b) : OfBinary(op, a, b, dtype);
  }
  const Bounds& from = uop.src(0)->bounds();
  if (op == Op::CAST) return from.known ? Wrapped(from, dtype) : BoundsOf(dtype);
  if (op == Op::WHERE) return OfWhere(uop);
  return op == Op::TRUNC ? from : BoundsOf(dtype);
}

}  // namespace

Bounds BoundsOf(DType dtype) {
  if (dtype == DType::kBool) return Interval(0, 1);
  if (!IsInt(dtype)) return {};
  const int bits = Bits(dtype);
  if (IsSigned(dtype)) return Interval(-(Int{1} << (bits - 1)), (Int{1} << (bits - 1)) - 1);
  return Interval(0, (Int{1} << bits) - 1);
}

Bounds InferBounds(const UOp& uop) {
  const DType dtype = uop.dtype();
  if (!IsIntOrBool(dtype)) return {};
  if (IsElementwise(uop.op())) return OfAlu(uop, dtype);
  switch (As<NonAluOp>(uop.op())) {
    case NonAluOp::CONST: return OfConst(uop);
    case NonAluOp::PARAM:
      if (!uop.IsVariable()) return BoundsOf(dtype);
      return {uop.arg_as<BufferArg>().min, uop.arg_as<BufferArg>().max, true};
    case NonAluOp::RANGE:
    case NonAluOp::SPECIAL: return Interval(0, std::max<Int>(uop.src(0)->bounds().max - 1, 0));
    case NonAluOp::BITCAST: {
      const UOp* from = uop.src(0);
      const bool same_items = ItemSize(from->dtype()) == ItemSize(dtype) && IsInt(from->dtype()) && IsInt(dtype);
      return same_items ? Wrapped(from->bounds(), dtype) : BoundsOf(dtype);
    }
    case NonAluOp::STACK: {
      if (uop.src().empty()) return BoundsOf(dtype);
      Bounds all = uop.src(0)->bounds();
      for (UOp* source : uop.src()) all = Hull(all, source->bounds());
      return all;
    }
    case NonAluOp::REDUCE: return OfReduce(uop, dtype);
    case NonAluOp::INDEX: return Hull(uop.src(0)->bounds(), Interval(0, 0));  // 0 outside
    case NonAluOp::PAD: {
      const ConstArg* fill = std::get_if<ConstArg>(&uop.arg());
      if (fill == nullptr || fill->invalid) return BoundsOf(dtype);
      return Hull(uop.src(0)->bounds(), OfConst(uop));
    }
    case NonAluOp::PERMUTE:
    case NonAluOp::FLIP:
    case NonAluOp::RESHAPE:
    case NonAluOp::EXPAND:
    case NonAluOp::REPLICATED:
    case NonAluOp::SHRINK:
    case NonAluOp::DETACH:
    case NonAluOp::CONTIGUOUS_BACKWARD:
    case NonAluOp::AFTER: return uop.src(0)->bounds();
    // Read from memory, from other code, or no value.
    case NonAluOp::BUFFER:
    case NonAluOp::BINARY:
    case NonAluOp::FUNCTION:
    case NonAluOp::TUPLE:
    case NonAluOp::GETTUPLE:
    case NonAluOp::LOAD:
    case NonAluOp::STORE:
    case NonAluOp::END:
    case NonAluOp::GROUP:
    case NonAluOp::SINK:
    case NonAluOp::LINEAR:
    case NonAluOp::CALL:
    case NonAluOp::BARRIER:
    case NonAluOp::IF:
    case NonAluOp::ENDIF:
    case NonAluOp::ATOMICADD:
    case NonAluOp::CUSTOM:
    case NonAluOp::CUSTOMI:
    case NonAluOp::WMMA: return BoundsOf(dtype);
  }
  return BoundsOf(dtype);
}

}  // namespace kiln::compiler
