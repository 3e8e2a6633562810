#include "compiler/ir/interval.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

using Int = __int128;

Int FloorDiv(Int a, Int b) {
  const Int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
Int CDiv(Int a, Int b) { return a / b; }

// -- Ops that are monotone in each operand: their extremes lie at the corners.

using Function = bool (*)(Int a, Int b, Int* result);  // true if the result does not fit

std::optional<Bounds> OfCorners(const Bounds& a, const Bounds& b, Function function) {
  Bounds all;
  for (const Int x : {a.min, a.max}) {
    for (const Int y : {b.min, b.max}) {
      Int result;
      if (function(x, y, &result)) return std::nullopt;
      all = all.known ? Hull(all, Interval(result, result)) : Interval(result, result);
    }
  }
  return all;
}

std::optional<Bounds> Product(const Bounds& a, const Bounds& b) {
  return OfCorners(a, b, [](Int x, Int y, Int* result) { return __builtin_mul_overflow(x, y, result); });
}

// -- Division: by the negative and the positive divisors apart; 0 stands alone.

template <typename Divide>
Bounds OfDivision(const Bounds& a, const Bounds& b, Divide divide) {
  Bounds all;
  auto add = [&](Int x) { all = all.known ? Hull(all, Interval(x, x)) : Interval(x, x); };
  if (b.min <= 0 && b.max >= 0) add(0);
  for (const Bounds& part : {Interval(b.min, std::min<Int>(b.max, -1)), Interval(std::max<Int>(b.min, 1), b.max)}) {
    if (part.min > part.max) continue;
    for (const Int x : {a.min, a.max}) {
      add(divide(x, part.min));
      add(divide(x, part.max));
    }
  }
  return all;
}

// a mod b with the divisor's sign; a for b = 0.
Bounds OfFloorMod(const Bounds& a, const Bounds& b) {
  if (b.IsConst() && b.min != 0 && FloorDiv(a.min, b.min) == FloorDiv(a.max, b.min)) {
    const Int whole = FloorDiv(a.min, b.min) * b.min;
    return Interval(a.min - whole, a.max - whole);
  }
  Bounds all;
  auto add = [&](const Bounds& part) { all = all.known ? Hull(all, part) : part; };
  if (b.min <= 0 && b.max >= 0) add(a);
  if (b.max > 0) {
    if (a.min >= 0 && a.max < std::max<Int>(b.min, 1)) {
      add(a);
    } else {
      add(Interval(0, a.min >= 0 ? std::min(a.max, b.max - 1) : b.max - 1));
    }
  }
  if (b.min < 0) {
    if (a.max <= 0 && a.min > std::min<Int>(b.max, -1)) {
      add(a);
    } else {
      add(Interval(a.max <= 0 ? std::max(a.min, b.min + 1) : b.min + 1, 0));
    }
  }
  return all;
}

// a - a / b * b with the dividend's sign; a for b = 0.
Bounds OfCMod(const Bounds& a, const Bounds& b) {
  if (b.IsConst() && b.min != 0 && CDiv(a.min, b.min) == CDiv(a.max, b.min)) {
    const Int whole = CDiv(a.min, b.min) * b.min;
    return Interval(a.min - whole, a.max - whole);
  }
  if (b.min <= 0 && b.max >= 0) return Interval(std::min<Int>(a.min, 0), std::max<Int>(a.max, 0));
  const Int max_magnitude = std::max(b.min < 0 ? -b.min : b.min, b.max < 0 ? -b.max : b.max) - 1;
  const Int least = std::min(b.min < 0 ? -b.min : b.min, b.max < 0 ? -b.max : b.max) - 1;
  if (a.min >= -least && a.max <= least) return a;
  return Interval(a.min >= 0 ? 0 : std::max(a.min, -max_magnitude), a.max <= 0 ? 0 : std::min(a.max, max_magnitude));
}

// -- Bits, of integers in two's complement without an end on the left.

// The least 2^k - 1 that is at least x >= 0.
Int Ones(Int x) {
  Int ones = 0;
  while (ones < x) ones = ones * 2 + 1;
  return ones;
}

Bounds Complement(const Bounds& a) { return Interval(-1 - a.max, -1 - a.min); }

Bounds OfAnd(const Bounds& a, const Bounds& b) {
  if (a.min >= 0 && b.min >= 0) return Interval(0, std::min(a.max, b.max));
  if (a.min >= 0) return Interval(0, a.max);
  if (b.min >= 0) return Interval(0, b.max);
  // Of two negative numbers no bit above the higher one's first zero is cleared.
  const Int least = -1 - Ones(-1 - std::min(a.min, b.min));
  if (a.max < 0 && b.max < 0) return Interval(least, std::min(a.max, b.max));
  return Interval(least, std::max(a.max, b.max));
}

Bounds OfXor(const Bounds& a, const Bounds& b) {
  auto magnitude = [](const Bounds& x) {
    return std::max<Int>(x.min < 0 ? -1 - x.min : 0, x.max < 0 ? -1 - x.min : x.max);
  };
  const Int max_magnitude = Ones(std::max(magnitude(a), magnitude(b)));
  const bool a_signed = a.min < 0 && a.max >= 0, b_signed = b.min < 0 && b.max >= 0;
  if (a_signed || b_signed) return Interval(-1 - max_magnitude, max_magnitude);
  return (a.min < 0) == (b.min < 0) ? Interval(0, max_magnitude) : Interval(-1 - max_magnitude, -1);
}

// Counts are read as unsigned, so a negative one is beyond any width.
Bounds OfShift(Op op, const Bounds& a, const Bounds& b, DType dtype) {
  const Int width = Bits(dtype);
  const bool may_fit = b.max >= 0 && b.min < width, may_exceed = b.min < 0 || b.max >= width;
  Bounds all;
  auto add = [&](const Bounds& part) { all = all.known ? Hull(all, part) : part; };
  if (may_fit) {
    const Bounds count = Interval(std::max<Int>(b.min, 0), std::min(b.max, width - 1));
    if (op == Op::SHL) {
      const std::optional<Bounds> product =
          Product(a, Interval(Int{1} << static_cast<int>(count.min), Int{1} << static_cast<int>(count.max)));
      if (!product.has_value()) return BoundsOf(dtype);
      add(Wrapped(*product, dtype));
    } else {
      add(*OfCorners(a, count, [](Int x, Int y, Int* result) {
        *result = x >> static_cast<int>(y);
        return false;
      }));
    }
  }
  if (may_exceed && op == Op::SHL) add(Interval(0, 0));
  if (may_exceed && op == Op::SHR) add(Interval(a.min < 0 ? -1 : 0, a.max < 0 ? -1 : 0));
  return all;
}

// Of bool, as docs/ir.md defines arithmetic on it.
Bounds OfBool(Op op, const Bounds& a, const Bounds& b) {
  switch (op) {
    case Op::ADD:
    case Op::OR:
    case Op::MAX: return Interval(std::max(a.min, b.min), std::max(a.max, b.max));
    case Op::MUL:
    case Op::AND:
    case Op::FLOORDIV:
    case Op::CDIV: return Interval(std::min(a.min, b.min), std::min(a.max, b.max));
    // a and not b: a % 1 is 0, a % 0 is a, and the count 1 is the width.
    case Op::FLOORMOD:
    case Op::CMOD:
    case Op::SHL:
    case Op::SHR: return Interval(std::min(a.min, 1 - b.max), std::min(a.max, 1 - b.min));
    case Op::XOR: return OfComparison(Op::CMPNE, a, b);
    default: return Interval(0, 1);
  }
}

}  // namespace

Bounds Interval(Int min, Int max) { return {min, max, true}; }

Bounds Hull(const Bounds& a, const Bounds& b) { return Interval(std::min(a.min, b.min), std::max(a.max, b.max)); }

Bounds Wrapped(const Bounds& exact, DType dtype) {
  if (dtype == DType::kBool) {
    if (exact.IsConst()) return Interval(exact.min != 0, exact.min != 0);
    return Interval(exact.min > 0 || exact.max < 0, 1);
  }
  const Bounds range = BoundsOf(dtype);
  if (exact.min >= range.min && exact.max <= range.max) return exact;
  const Int size = range.max - range.min + 1;
  if (exact.min < -(Int{1} << 126) || exact.max > (Int{1} << 126)) return range;
  const Int wraps = FloorDiv(exact.min - range.min, size);
  if (FloorDiv(exact.max - range.min, size) != wraps) return range;
  return Interval(exact.min - wraps * size, exact.max - wraps * size);
}

Bounds OfBinary(Op op, const Bounds& a, const Bounds& b, DType dtype) {
  if (dtype == DType::kBool) return OfBool(op, a, b);
  switch (op) {
    case Op::ADD: return Wrapped(Interval(a.min + b.min, a.max + b.max), dtype);
    case Op::MUL: {
      const std::optional<Bounds> product = Product(a, b);
      return product.has_value() ? Wrapped(*product, dtype) : BoundsOf(dtype);
    }
    case Op::MAX: return Interval(std::max(a.min, b.min), std::max(a.max, b.max));
    case Op::FLOORDIV: return Wrapped(OfDivision(a, b, FloorDiv), dtype);
    case Op::CDIV: return Wrapped(OfDivision(a, b, CDiv), dtype);
    case Op::FLOORMOD: return OfFloorMod(a, b);
    case Op::CMOD: return OfCMod(a, b);
    case Op::AND: return OfAnd(a, b);
    case Op::OR: return Complement(OfAnd(Complement(a), Complement(b)));
    case Op::XOR: return OfXor(a, b);
    case Op::SHL:
    case Op::SHR: return OfShift(op, a, b, dtype);
    default: return BoundsOf(dtype);
  }
}

Bounds OfComparison(Op op, const Bounds& a, const Bounds& b) {
  const Bounds either = Interval(0, 1);
  if (!a.known || !b.known) return either;
  if (op == Op::CMPLT) {
    if (a.max < b.min) return Interval(1, 1);
    return a.min >= b.max ? Interval(0, 0) : either;
  }
  if (a.max < b.min || b.max < a.min) return Interval(1, 1);
  return a.IsConst() && b.IsConst() ? Interval(0, 0) : either;
}

}  // namespace kiln::compiler
