#include <algorithm>

#include "compiler/ir/infer.h"

// min_max by interval arithmetic. An interval that leaves the dtype's range
// means that the operation may wrap: then nothing is known but the dtype.
namespace kiln::compiler {
namespace {

using Int = __int128;

Int FloorDiv(Int a, Int b) {
  const Int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Bounds Make(Int min, Int max) { return {min, max, true}; }

Bounds Clip(Bounds bounds, DType dtype) {
  const Bounds range = BoundsOf(dtype);
  return bounds.min < range.min || bounds.max > range.max ? range : bounds;
}

Bounds OfMul(const Bounds& a, const Bounds& b) {
  const Int corners[] = {a.min * b.min, a.min * b.max, a.max * b.min, a.max * b.max};
  return Make(*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4));
}

// Whether products of the bounds fit __int128.
bool Moderate(const Bounds& b) { return b.min > -(Int{1} << 63) - 1 && b.max < (Int{1} << 63); }

Bounds OfBinary(Op op, const Bounds& a, const Bounds& b, DType dtype) {
  const Bounds range = BoundsOf(dtype);
  switch (op) {
    case Op::ADD: return Clip(Make(a.min + b.min, a.max + b.max), dtype);
    case Op::MUL: return Moderate(a) && Moderate(b) ? Clip(OfMul(a, b), dtype) : range;
    case Op::MAX: return Make(std::max(a.min, b.min), std::max(a.max, b.max));
    case Op::FLOORDIV:
      if (!b.IsConst() || b.min <= 0) return range;
      return Make(FloorDiv(a.min, b.min), FloorDiv(a.max, b.min));
    case Op::FLOORMOD:
      if (b.min <= 0) return range;
      if (a.min >= 0 && a.max < b.min) return a;
      return Make(0, b.max - 1);
    case Op::CDIV:
      if (!b.IsConst() || b.min <= 0) return range;
      return Make(a.min / b.min, a.max / b.min);
    case Op::CMOD:
      if (b.min <= 0) return range;
      if (a.min >= 0) return Make(0, std::min(a.max, b.max - 1));
      return Make(-(b.max - 1), a.max > 0 ? b.max - 1 : 0);
    case Op::AND:
      if (a.min >= 0 && b.min >= 0) return Make(0, std::min(a.max, b.max));
      return range;
    case Op::SHR:
      if (!b.IsConst() || b.min < 0 || b.min > 62 || a.min < 0) return range;
      return Make(a.min >> static_cast<int>(b.min), a.max >> static_cast<int>(b.min));
    default: return range;
  }
}

Bounds OfComparison(Op op, const Bounds& a, const Bounds& b) {
  const Bounds either = Make(0, 1);
  if (!a.known || !b.known) return either;
  if (op == Op::CMPLT) {
    if (a.max < b.min) return Make(1, 1);
    if (a.min >= b.max) return Make(0, 0);
    return either;
  }
  if (a.max < b.min || b.max < a.min) return Make(1, 1);
  if (a.IsConst() && b.IsConst() && a.min == b.min) return Make(0, 0);
  return either;
}

}  // namespace

Bounds BoundsOf(DType dtype) {
  if (dtype == DType::kBool) return Make(0, 1);
  if (!IsInt(dtype)) return {};
  const int bits = Bits(dtype);
  if (IsSigned(dtype)) return Make(-(Int{1} << (bits - 1)), (Int{1} << (bits - 1)) - 1);
  return Make(0, (Int{1} << bits) - 1);
}

Bounds InferBounds(const UOp& uop) {
  const DType dtype = uop.dtype();
  if (!IsIntOrBool(dtype)) return {};
  const Op op = uop.op();
  if (Is(op, kComparison)) return OfComparison(op, uop.src(0)->bounds(), uop.src(1)->bounds());
  if (Is(op, kBinary))
    return dtype == DType::kBool && (op == Op::ADD || op == Op::MUL)
               ? OfBinary(op == Op::ADD ? Op::MAX : Op::AND, uop.src(0)->bounds(), uop.src(1)->bounds(), dtype)
               : OfBinary(op, uop.src(0)->bounds(), uop.src(1)->bounds(), dtype);
  switch (op) {
    case Op::CONST: {
      const ConstArg& value = uop.arg_as<ConstArg>();
      if (value.invalid) return BoundsOf(dtype);
      const Int n = IsSigned(dtype) ? Int{static_cast<int64_t>(value.bits)} : Int{value.bits};
      return Make(n, n);
    }
    case Op::RANGE:
    case Op::SPECIAL: return Make(0, std::max<Int>(uop.src(0)->bounds().max - 1, 0));
    case Op::CAST: {
      const Bounds& from = uop.src(0)->bounds();
      return from.known && dtype != DType::kBool ? Clip(from, dtype) : BoundsOf(dtype);
    }
    case Op::WHERE: {
      const Bounds& a = uop.src(1)->bounds();
      const Bounds& b = uop.src(2)->bounds();
      return Make(std::min(a.min, b.min), std::max(a.max, b.max));
    }
    case Op::STACK: {
      if (uop.src().empty()) return BoundsOf(dtype);
      Bounds all = uop.src(0)->bounds();
      for (UOp* source : uop.src())
        all = Make(std::min(all.min, source->bounds().min), std::max(all.max, source->bounds().max));
      return all;
    }
    case Op::PERMUTE:
    case Op::FLIP:
    case Op::RESHAPE:
    case Op::EXPAND:
    case Op::SHRINK:
    case Op::TRUNC:
    case Op::DETACH:
    case Op::CONTIGUOUS_BACKWARD:
    case Op::AFTER: return uop.src(0)->bounds();
    default: return BoundsOf(dtype);  // INDEX and PAD may also give 0, or Invalid
  }
}

}  // namespace kiln::compiler
