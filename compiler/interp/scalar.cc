#include "compiler/interp/scalar.h"

#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/float_bits.h"
#include "compiler/ir/build.h"
#include "compiler/ir/infer.h"

namespace kiln::compiler {
namespace {

using Int = __int128;

// -- Integers: exact in 128 bits, then wrapped.

Int IntValue(DType dtype, uint64_t bits) { return IsSigned(dtype) ? Int{static_cast<int64_t>(bits)} : Int{bits}; }
uint64_t WrapBits(DType dtype, Int value) { return WrapInt(dtype, static_cast<uint64_t>(value)); }

Int FloorDiv(Int a, Int b) {
  const Int q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

uint64_t Shift(Op op, DType dtype, Int value, uint64_t count_bits) {
  const int width = Bits(dtype);
  const uint64_t count = width == 64 ? count_bits : count_bits & ((uint64_t{1} << width) - 1);
  if (count >= static_cast<uint64_t>(width)) return op == Op::SHR && value < 0 ? WrapBits(dtype, -1) : 0;
  return WrapBits(dtype,
                  op == Op::SHL ? static_cast<Int>(static_cast<unsigned __int128>(value) << count) : value >> count);
}

uint32_t RotateLeft(uint32_t x, int by) { return std::rotl(x, by); }

uint64_t Threefry(uint64_t x, uint64_t key) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  const uint32_t keys[3] = {k0, k1, k0 ^ k1 ^ 0x1BD11BDAu};
  uint32_t a = static_cast<uint32_t>(x) + keys[0], b = static_cast<uint32_t>(x >> 32) + keys[1];
  for (int group = 0; group < 5; ++group) {
    for (int rotation : kRotations[group % 2]) {
      a += b;
      b = RotateLeft(b, rotation) ^ a;
    }
    a += keys[(group + 1) % 3];
    b += keys[(group + 2) % 3] + static_cast<uint32_t>(group) + 1;
  }
  return uint64_t{b} << 32 | a;
}

uint64_t EvalInt(Op op, DType dtype, absl::Span<const uint64_t> operands) {
  const Int a = IntValue(dtype, operands[0]);
  if (op == Op::TRUNC) return operands[0];
  const Int b = IntValue(dtype, operands[1]);
  switch (As<AluOp>(op)) {
    case AluOp::ADD: return WrapBits(dtype, a + b);
    case AluOp::MUL: return WrapInt(dtype, operands[0] * operands[1]);
    case AluOp::MAX: return WrapBits(dtype, a > b ? a : b);
    case AluOp::FLOORDIV: return b == 0 ? 0 : WrapBits(dtype, FloorDiv(a, b));
    case AluOp::FLOORMOD: return WrapBits(dtype, b == 0 ? a : a - FloorDiv(a, b) * b);
    case AluOp::CDIV: return b == 0 ? 0 : WrapBits(dtype, a / b);
    case AluOp::CMOD: return WrapBits(dtype, b == 0 ? a : a % b);
    case AluOp::XOR: return WrapInt(dtype, operands[0] ^ operands[1]);
    case AluOp::OR: return WrapInt(dtype, operands[0] | operands[1]);
    case AluOp::AND: return WrapInt(dtype, operands[0] & operands[1]);
    case AluOp::SHL:
    case AluOp::SHR: return Shift(op, dtype, a, operands[1]);
    case AluOp::CMPLT: return a < b;
    case AluOp::CMPNE: return a != b;
    case AluOp::THREEFRY: return Threefry(operands[0], operands[1]);
    // Of floats alone (infer_dtype.cc), or of any dtype (EvalScalar).
    case AluOp::RECIPROCAL:
    case AluOp::TRUNC:
    case AluOp::CAST:
    case AluOp::EXP2:
    case AluOp::LOG2:
    case AluOp::SIN:
    case AluOp::SQRT:
    case AluOp::FDIV:
    case AluOp::POW:
    case AluOp::WHERE: break;
  }
  KILN_CHECK(false);
  return 0;
}

uint64_t EvalBool(Op op, absl::Span<const uint64_t> operands) {
  const uint64_t a = operands[0];
  if (op == Op::TRUNC) return a;
  const uint64_t b = operands[1];
  switch (As<AluOp>(op)) {
    case AluOp::ADD:
    case AluOp::MAX:
    case AluOp::OR: return a | b;
    case AluOp::MUL:
    case AluOp::AND: return a & b;
    case AluOp::XOR:
    case AluOp::CMPNE: return a ^ b;
    case AluOp::CMPLT: return ~a & b & 1;
    // As integers of one bit: x / 1 is x, x / 0 is 0; the count 1 is the width.
    case AluOp::FLOORDIV:
    case AluOp::CDIV: return a & b;
    case AluOp::FLOORMOD:
    case AluOp::CMOD: return a & ~b & 1;
    case AluOp::SHL:
    case AluOp::SHR: return a & ~b & 1;
    // Of floats or uint64 alone (infer_dtype.cc), or of any dtype (EvalScalar).
    case AluOp::RECIPROCAL:
    case AluOp::TRUNC:
    case AluOp::CAST:
    case AluOp::EXP2:
    case AluOp::LOG2:
    case AluOp::SIN:
    case AluOp::SQRT:
    case AluOp::FDIV:
    case AluOp::POW:
    case AluOp::THREEFRY:
    case AluOp::WHERE: break;
  }
  KILN_CHECK(false);
  return 0;
}

// -- Floats: T is what the op is computed in, float or double.

template <typename T>
T EvalFloat(Op op, T a, T b) {
  switch (As<AluOp>(op)) {
    case AluOp::ADD: return a + b;
    case AluOp::MUL: return a * b;
    case AluOp::MAX: return a != a ? a : b != b ? b : a > b ? a : b;
    case AluOp::FDIV: return a / b;
    case AluOp::RECIPROCAL: return T{1} / a;
    case AluOp::TRUNC: return std::trunc(a);
    case AluOp::SQRT: return std::sqrt(a);
    // In double, so that float32 comes out rounded correctly almost always.
    case AluOp::EXP2: return static_cast<T>(std::exp2(static_cast<double>(a)));
    case AluOp::LOG2: return static_cast<T>(std::log2(static_cast<double>(a)));
    case AluOp::SIN: return static_cast<T>(std::sin(static_cast<double>(a)));
    case AluOp::POW: return static_cast<T>(std::pow(static_cast<double>(a), static_cast<double>(b)));
    // Of integers alone (infer_dtype.cc), of any dtype (EvalScalar), or no float (EvalFloatBits).
    case AluOp::CAST:
    case AluOp::FLOORDIV:
    case AluOp::FLOORMOD:
    case AluOp::CDIV:
    case AluOp::CMOD:
    case AluOp::CMPLT:
    case AluOp::CMPNE:
    case AluOp::XOR:
    case AluOp::OR:
    case AluOp::AND:
    case AluOp::SHL:
    case AluOp::SHR:
    case AluOp::THREEFRY:
    case AluOp::WHERE: break;
  }
  KILN_CHECK(false);
  return 0;
}

uint64_t EvalFloatBits(Op op, DType dtype, absl::Span<const uint64_t> operands) {
  const double a = FloatValue(dtype, operands[0]);
  const double b = operands.size() > 1 ? FloatValue(dtype, operands[1]) : 0;
  if (op == Op::CMPLT) return a < b;
  if (op == Op::CMPNE) return a != b;
  if (ItemSize(dtype) == 8) return FloatBits(dtype, EvalFloat<double>(op, a, b));
  return FloatBits(dtype, EvalFloat<float>(op, static_cast<float>(a), static_cast<float>(b)));
}

// -- Casts

uint64_t CastFloatToInt(double value, DType to) {
  if (to == DType::kBool) return value != 0;
  if (value != value) return 0;
  const Bounds range = BoundsOf(to);
  if (value <= static_cast<double>(range.min)) return static_cast<uint64_t>(range.min);
  if (value >= static_cast<double>(range.max)) return static_cast<uint64_t>(range.max);
  return WrapBits(to, static_cast<Int>(value));
}

// Rounds once: an integer of up to 64 bits need not fit a double, so bits that a
// double would drop are first folded into one sticky bit below its last.
uint64_t CastIntToFloat(Int value, DType to) {
  if (to == DType::kFloat64 || to == DType::kWeakfloat) return FloatBits(to, static_cast<double>(value));
  const bool negative = value < 0;
  auto magnitude = static_cast<unsigned __int128>(negative ? -value : value);
  if (magnitude >> 53) magnitude = (magnitude >> 12 << 12) | (uint64_t{(magnitude & 0xFFF) != 0} << 12);
  const auto exact = static_cast<double>(static_cast<uint64_t>(magnitude));
  return FloatBits(to, negative ? -exact : exact);
}

uint64_t Cast(DType from, DType to, uint64_t bits) {
  if (IsFloat(from)) {
    const double value = FloatValue(from, bits);
    return IsFloat(to) ? FloatBits(to, value) : CastFloatToInt(value, to);
  }
  if (IsFloat(to)) return CastIntToFloat(IntValue(from, bits), to);
  return WrapInt(to, bits);
}

// From the low bits of an item of its size to ConstArg's form.
uint64_t Reinterpret(DType from, DType to, uint64_t bits) {
  if (ItemSize(from) < 8) bits &= (uint64_t{1} << (8 * ItemSize(from))) - 1;
  return IsIntOrBool(to) ? WrapInt(to, bits) : bits;
}

}  // namespace

double FloatValue(DType dtype, uint64_t bits) { return BitsToFloat(ToWire(dtype), bits); }
uint64_t FloatBits(DType dtype, double value) { return FloatToBits(ToWire(dtype), value); }

uint64_t EvalScalar(Op op, DType from, DType to, absl::Span<const uint64_t> operands) {
  if (op == Op::WHERE) return operands[0] != 0 ? operands[1] : operands[2];
  if (op == Op::CAST) return Cast(from, to, operands[0]);
  if (op == Op::BITCAST) return Reinterpret(from, to, operands[0]);
  if (from == DType::kBool) return EvalBool(op, operands);
  return IsFloat(from) ? EvalFloatBits(op, from, operands) : EvalInt(op, from, operands);
}

}  // namespace kiln::compiler
