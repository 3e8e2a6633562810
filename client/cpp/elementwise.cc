#include "client/cpp/elementwise.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace kiln::client {
namespace {

enum class Domain { kAll, kNumber, kFloat, kInteger, kBits };

bool Accepts(Domain domain, v1::DType dtype) {
  switch (domain) {
    case Domain::kAll: return DTypeSize(dtype) > 0;
    case Domain::kNumber: return IsFloat(dtype) || IsInteger(dtype);
    case Domain::kFloat: return IsFloat(dtype);
    case Domain::kInteger: return IsInteger(dtype);
    case Domain::kBits: return IsInteger(dtype) || dtype == v1::BOOL;
  }
  return false;
}

absl::string_view DomainText(Domain domain) {
  switch (domain) {
    case Domain::kAll: return "values";
    case Domain::kNumber: return "numbers";
    case Domain::kFloat: return "floats";
    case Domain::kInteger: return "integers";
    case Domain::kBits: return "integers or bool";
  }
  return "";
}

// The operands as nodes of one dtype and the shape they broadcast to.
struct Pair {
  Tensor a, b;
  Sizes shape;
};

// A pair with an invalid `a` is what remains of an error.
Pair Meet(absl::string_view function, const Operand& x, const Operand& y, Domain domain) {
  Tensor a = x.tensor(), b = y.tensor();
  Graph* graph = a.graph() != nullptr ? a.graph() : b.graph();
  if (graph == nullptr) return {};
  if (x.number().has_value() && b.valid()) a = graph->Constant(*x.number(), b.dtype());
  if (y.number().has_value() && a.valid()) b = graph->Constant(*y.number(), a.dtype());
  if (!a.valid() || !b.valid()) return {graph->Fail(absl::OkStatus()), {}, {}};
  if (a.graph() != b.graph()) {
    return {graph->Fail(v1::BAD_ARGUMENT, function, "the operands are of two different graphs"), {}, {}};
  }
  if (a.dtype() != b.dtype()) {
    return {graph->Fail(v1::DTYPE_MISMATCH, function,
                        absl::StrCat("the operands are ", DTypeName(a.dtype()), " and ", DTypeName(b.dtype()),
                                     "; Cast one of them")),
            {},
            {}};
  }
  if (!Accepts(domain, a.dtype())) {
    return {graph->Fail(v1::DTYPE_MISMATCH, function,
                        absl::StrCat("takes ", DomainText(domain), ", not ", DTypeName(a.dtype()))),
            {},
            {}};
  }
  std::optional<Sizes> shape = BroadcastShape(a.sizes(), b.sizes());
  if (!shape.has_value()) {
    return {graph->Fail(v1::SHAPE_MISMATCH, function,
                        absl::StrCat(ShapeText(a.sizes()), " and ", ShapeText(b.sizes()),
                                     " do not broadcast: axes, aligned at the last, must be equal or 1")),
            {},
            {}};
  }
  return {a, b, *std::move(shape)};
}

Tensor Binary(absl::string_view function, v1::Op op, const Operand& x, const Operand& y, Domain domain) {
  const Pair pair = Meet(function, x, y, domain);
  if (!pair.a.valid()) return pair.a;
  return pair.a.graph()->Node(op, {pair.a.node(), pair.b.node()}, pair.a.dtype(), pair.shape);
}

Tensor Compare(absl::string_view function, v1::Op op, const Operand& x, const Operand& y) {
  const Pair pair = Meet(function, x, y, Domain::kAll);
  if (!pair.a.valid()) return pair.a;
  return pair.a.graph()->Node(op, {pair.a.node(), pair.b.node()}, v1::BOOL, pair.shape);
}

// The server's op is that nothing is the other way round, which NaN fulfils.
Tensor OrEqual(absl::string_view function, v1::Op op, v1::Op strict, const Operand& x, const Operand& y) {
  const Pair pair = Meet(function, x, y, Domain::kAll);
  if (!pair.a.valid()) return pair.a;
  if (!IsFloat(pair.a.dtype())) return Compare(function, op, pair.a, pair.b);
  return Compare(function, strict, pair.a, pair.b) | Compare(function, v1::CMPEQ, pair.a, pair.b);
}

Tensor Unary(absl::string_view function, v1::Op op, Tensor x, Domain domain) {
  if (!x.valid()) return x;
  if (!Accepts(domain, x.dtype())) {
    return x.graph()->Fail(v1::DTYPE_MISMATCH, function,
                           absl::StrCat("takes ", DomainText(domain), ", not ", DTypeName(x.dtype())));
  }
  return x.graph()->Node(op, {x.node()}, x.dtype(), x.sizes());
}

Tensor Convert(absl::string_view function, v1::Op op, Tensor x, v1::DType dtype, Sizes shape) {
  if (DTypeSize(dtype) == 0) {
    return x.graph()->Fail(v1::BAD_ARGUMENT, function, absl::StrCat(DTypeName(dtype), " is no dtype of values"));
  }
  v1::UOp uop;
  uop.set_op(op);
  uop.add_src(x.node());
  uop.set_cast_to(dtype);
  return x.graph()->Node(std::move(uop), dtype, std::move(shape));
}

constexpr double kLog2E = 1.4426950408889634;
constexpr double kLn2 = 0.6931471805599453;
constexpr double kHalfPi = 1.5707963267948966;

}  // namespace

std::optional<Sizes> BroadcastShape(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() >= b.size() ? a : b;
  const Sizes& shorter = a.size() >= b.size() ? b : a;
  Sizes result = longer;
  const size_t skip = longer.size() - shorter.size();
  for (size_t axis = 0; axis < shorter.size(); ++axis) {
    Size& size = result[skip + axis];
    if (size == 1) {
      size = shorter[axis];
    } else if (shorter[axis] != 1 && shorter[axis] != size) {
      return std::nullopt;
    }
  }
  return result;
}

Tensor operator+(const Operand& a, const Operand& b) { return Binary("Add", v1::ADD, a, b, Domain::kAll); }
Tensor operator-(const Operand& a, const Operand& b) { return Binary("Sub", v1::SUB, a, b, Domain::kNumber); }
Tensor operator*(const Operand& a, const Operand& b) { return Binary("Mul", v1::MUL, a, b, Domain::kAll); }
Tensor operator/(const Operand& a, const Operand& b) { return Binary("Div", v1::FDIV, a, b, Domain::kFloat); }
Tensor operator-(Tensor x) { return Unary("Neg", v1::NEG, x, Domain::kNumber); }
Tensor Neg(Tensor x) { return -x; }
Tensor Sub(const Operand& a, const Operand& b) { return a - b; }
Tensor Div(const Operand& a, const Operand& b) { return a / b; }
Tensor FloorDiv(const Operand& a, const Operand& b) { return Binary("FloorDiv", v1::FLOORDIV, a, b, Domain::kInteger); }
Tensor Mod(const Operand& a, const Operand& b) { return Binary("Mod", v1::FLOORMOD, a, b, Domain::kInteger); }
Tensor Maximum(const Operand& a, const Operand& b) { return Binary("Maximum", v1::MAX, a, b, Domain::kAll); }

// The greater of the mirrored values, mirrored back.
Tensor Minimum(const Operand& a, const Operand& b) {
  const Pair pair = Meet("Minimum", a, b, Domain::kAll);
  if (!pair.a.valid()) return pair.a;
  if (IsFloat(pair.a.dtype())) return -Maximum(-pair.a, -pair.b);
  return Where(pair.a < pair.b, pair.a, pair.b);
}

Tensor Clamp(Tensor x, Scalar low, Scalar high) {
  if (!x.valid()) return x;
  const Tensor least = x.graph()->Constant(low, x.dtype());
  const Tensor greatest = x.graph()->Constant(high, x.dtype());
  return Minimum(Maximum(x, least), greatest);
}

Tensor operator<(const Operand& a, const Operand& b) { return Compare("Less", v1::CMPLT, a, b); }
Tensor operator>(const Operand& a, const Operand& b) { return Compare("Greater", v1::CMPGT, a, b); }
Tensor operator<=(const Operand& a, const Operand& b) { return OrEqual("LessEqual", v1::CMPLE, v1::CMPLT, a, b); }
Tensor operator>=(const Operand& a, const Operand& b) { return OrEqual("GreaterEqual", v1::CMPGE, v1::CMPGT, a, b); }
Tensor operator==(const Operand& a, const Operand& b) { return Compare("Equal", v1::CMPEQ, a, b); }
Tensor operator!=(const Operand& a, const Operand& b) { return Compare("NotEqual", v1::CMPNE, a, b); }

Tensor operator&(const Operand& a, const Operand& b) { return Binary("And", v1::AND, a, b, Domain::kBits); }
Tensor operator|(const Operand& a, const Operand& b) { return Binary("Or", v1::OR, a, b, Domain::kBits); }
Tensor operator^(const Operand& a, const Operand& b) { return Binary("Xor", v1::XOR, a, b, Domain::kBits); }
Tensor operator<<(const Operand& a, const Operand& b) { return Binary("ShiftLeft", v1::SHL, a, b, Domain::kInteger); }
Tensor operator>>(const Operand& a, const Operand& b) { return Binary("ShiftRight", v1::SHR, a, b, Domain::kInteger); }

Tensor operator!(Tensor x) {
  if (x.valid() && x.dtype() != v1::BOOL) {
    return x.graph()->Fail(v1::DTYPE_MISMATCH, "Not", absl::StrCat("takes bool, not ", DTypeName(x.dtype())));
  }
  return x != true;
}

Tensor Where(Tensor condition, const Operand& a, const Operand& b) {
  if (!condition.valid()) return condition;
  if (condition.dtype() != v1::BOOL) {
    return condition.graph()->Fail(v1::DTYPE_MISMATCH, "Where",
                                   absl::StrCat("the condition must be bool, not ", DTypeName(condition.dtype())));
  }
  if (a.number().has_value() && b.number().has_value()) {
    return condition.graph()->Fail(v1::BAD_ARGUMENT, "Where",
                                   "two plain numbers have no dtype; make one of them with Constant");
  }
  const Pair pair = Meet("Where", a, b, Domain::kAll);
  if (!pair.a.valid()) return pair.a;
  const std::optional<Sizes> shape = BroadcastShape(condition.sizes(), pair.shape);
  if (!shape.has_value()) {
    return condition.graph()->Fail(v1::SHAPE_MISMATCH, "Where",
                                   absl::StrCat("a condition of ", ShapeText(condition.sizes()),
                                                " does not broadcast with values of ", ShapeText(pair.shape)));
  }
  return condition.graph()->Node(v1::WHERE, {condition.node(), pair.a.node(), pair.b.node()}, pair.a.dtype(), *shape);
}

Tensor Cast(Tensor x, v1::DType dtype) {
  if (!x.valid() || x.dtype() == dtype) return x;
  return Convert("Cast", v1::CAST, x, dtype, x.sizes());
}

Tensor Bitcast(Tensor x, v1::DType dtype) {
  if (!x.valid() || x.dtype() == dtype) return x;
  Sizes shape = x.sizes();
  const int64_t from = DTypeSize(x.dtype()), to = DTypeSize(dtype);
  if (to != 0 && from != to) {
    const std::optional<Size> last = shape.empty() ? std::nullopt : (shape.back() * from).DividedBy(to);
    if (!last) {
      return x.graph()->Fail(
          v1::SHAPE_MISMATCH, "Bitcast",
          absl::StrCat("the last axis of ", TypeText(x.dtype(), shape), " is no whole number of ", DTypeName(dtype)));
    }
    shape.back() = *last;
  }
  return Convert("Bitcast", v1::BITCAST, x, dtype, std::move(shape));
}

Tensor Reciprocal(Tensor x) { return Unary("Reciprocal", v1::RECIPROCAL, x, Domain::kFloat); }
Tensor Exp2(Tensor x) { return Unary("Exp2", v1::EXP2, x, Domain::kFloat); }
Tensor Log2(Tensor x) { return Unary("Log2", v1::LOG2, x, Domain::kFloat); }
Tensor Sin(Tensor x) { return Unary("Sin", v1::SIN, x, Domain::kFloat); }
Tensor Sqrt(Tensor x) { return Unary("Sqrt", v1::SQRT, x, Domain::kFloat); }
// A factor that is no integer makes an integer x an error of its own.
Tensor Exp(Tensor x) { return Exp2(x * kLog2E); }
Tensor Log(Tensor x) { return Log2(x) * kLn2; }
Tensor Cos(Tensor x) { return Sin(kHalfPi - x); }
Tensor Rsqrt(Tensor x) { return Reciprocal(Sqrt(x)); }
Tensor Pow(const Operand& base, const Operand& exponent) {
  return Binary("Pow", v1::POW, base, exponent, Domain::kFloat);
}

Tensor Sigmoid(Tensor x) { return Reciprocal(1 + Exp2(x * -kLog2E)); }
Tensor Gelu(Tensor x) { return 0.5 * x * (1 + Tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

Tensor Relu(Tensor x) { return Maximum(x, 0); }
Tensor Square(Tensor x) { return x * x; }
Tensor Abs(Tensor x) { return x.valid() && !IsFloat(x.dtype()) && !IsSigned(x.dtype()) ? x : Maximum(x, -x); }

Tensor Sign(Tensor x) {
  if (!x.valid()) return x;
  Graph& graph = *x.graph();
  const Tensor zero = graph.Constant(0, x.dtype()), one = graph.Constant(1, x.dtype());
  if (!IsFloat(x.dtype()) && !IsSigned(x.dtype())) return Where(x != zero, one, zero);
  const Tensor sign = Where(x < zero, -1, Where(x > zero, one, zero));
  return IsFloat(x.dtype()) ? Where(x != x, x, sign) : sign;
}

Tensor Trunc(Tensor x) {
  if (x.valid() && IsInteger(x.dtype())) return x;
  return Unary("Trunc", v1::TRUNC, x, Domain::kFloat);
}

Tensor Floor(Tensor x) {
  const Tensor whole = Trunc(x);
  return whole.valid() && IsFloat(x.dtype()) ? Where(x < whole, whole - 1, whole) : whole;
}

Tensor Ceil(Tensor x) {
  const Tensor whole = Trunc(x);
  return whole.valid() && IsFloat(x.dtype()) ? Where(whole < x, whole + 1, whole) : whole;
}

}  // namespace kiln::client
