// Functions of each element. Shapes broadcast: aligned at the last axis, an axis
// of size 1 or a missing one stretches. Two tensors must have one dtype (Cast
// says otherwise); a C++ number takes the tensor's.
#ifndef KILN_CLIENT_CPP_ELEMENTWISE_H_
#define KILN_CLIENT_CPP_ELEMENTWISE_H_

#include <optional>
#include <type_traits>

#include "client/cpp/graph.h"

namespace kiln::client {

// A tensor, or a number beside one.
class Operand {
 public:
  Operand(Tensor tensor) : tensor_(tensor) {}  // NOLINT: implicit on purpose
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Operand(T number) : number_(Scalar(number)) {}  // NOLINT: implicit on purpose

  const Tensor& tensor() const { return tensor_; }
  const std::optional<Scalar>& number() const { return number_; }

 private:
  Tensor tensor_;
  std::optional<Scalar> number_;
};

// -- Arithmetic. Integers wrap.
Tensor operator+(const Operand& a, const Operand& b);
Tensor operator-(const Operand& a, const Operand& b);
Tensor operator*(const Operand& a, const Operand& b);
// Floats only.
Tensor operator/(const Operand& a, const Operand& b);
Tensor operator-(Tensor x);
Tensor Neg(Tensor x);
Tensor Sub(const Operand& a, const Operand& b);
Tensor Div(const Operand& a, const Operand& b);
// Integers only: toward minus infinity, with the divisor's sign.
Tensor FloorDiv(const Operand& a, const Operand& b);
Tensor Mod(const Operand& a, const Operand& b);
// NaN wins.
Tensor Maximum(const Operand& a, const Operand& b);
Tensor Minimum(const Operand& a, const Operand& b);
Tensor Clamp(Tensor x, Scalar low, Scalar high);

// -- Comparison; the result is bool.
Tensor operator<(const Operand& a, const Operand& b);
Tensor operator>(const Operand& a, const Operand& b);
Tensor operator<=(const Operand& a, const Operand& b);
Tensor operator>=(const Operand& a, const Operand& b);
Tensor operator==(const Operand& a, const Operand& b);
Tensor operator!=(const Operand& a, const Operand& b);

// -- Bits: integers, and bool except for the shifts.
Tensor operator&(const Operand& a, const Operand& b);
Tensor operator|(const Operand& a, const Operand& b);
Tensor operator^(const Operand& a, const Operand& b);
Tensor operator<<(const Operand& a, const Operand& b);
Tensor operator>>(const Operand& a, const Operand& b);
// Of bool.
Tensor operator!(Tensor x);

// Where `condition` (bool) holds a, else b. One of a and b is a tensor.
Tensor Where(Tensor condition, const Operand& a, const Operand& b);

Tensor Cast(Tensor x, v1::DType dtype);
// The bytes as another dtype; another item size scales the last axis.
Tensor Bitcast(Tensor x, v1::DType dtype);

// -- Floats only
Tensor Reciprocal(Tensor x);
Tensor Exp(Tensor x);
Tensor Exp2(Tensor x);
Tensor Log(Tensor x);
Tensor Log2(Tensor x);
Tensor Sin(Tensor x);
Tensor Cos(Tensor x);
Tensor Sqrt(Tensor x);
Tensor Rsqrt(Tensor x);
Tensor Pow(const Operand& base, const Operand& exponent);
Tensor Sigmoid(Tensor x);
Tensor Tanh(Tensor x);
Tensor Erf(Tensor x);
// The tanh approximation.
Tensor Gelu(Tensor x);

// -- Any number; on integers Trunc, Floor and Ceil change nothing.
Tensor Relu(Tensor x);
Tensor Square(Tensor x);
Tensor Abs(Tensor x);
// -1, 0 or 1; NaN stays.
Tensor Sign(Tensor x);
Tensor Trunc(Tensor x);
Tensor Floor(Tensor x);
Tensor Ceil(Tensor x);

// The shape that `a` and `b` broadcast to, or none.
std::optional<Sizes> BroadcastShape(const Sizes& a, const Sizes& b);

}  // namespace kiln::client

#endif  // KILN_CLIENT_CPP_ELEMENTWISE_H_
