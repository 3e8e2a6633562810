// Arithmetic of each element.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include <cmath>
#include <limits>

#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

Result Divide(Node& node) {
  const Tensor a = node.In(0), b = node.In(1);
  return IsFloat(a.dtype()) ? a / b : TruncDiv(a, b);
}

// Of floats the remainder has the dividend's sign, as C's fmod; of integers the divisor's
// unless fmod is set.
Result Modulo(Node& node) {
  const Tensor a = node.In(0), b = node.In(1);
  if (!IsFloat(a.dtype())) return node.Int("fmod") != 0 ? TruncMod(a, b) : Mod(a, b);
  const Tensor x = Widened(a), y = Widened(b);
  // What is finite is its own remainder by what is infinite.
  const double infinity = std::numeric_limits<double>::infinity();
  const Tensor rest = Where((Abs(y) == infinity) & (Abs(x) != infinity), x, x - Trunc(x / y) * y);
  return Cast(node.Int("fmod") != 0 ? rest : Where((rest != 0.0) & ((rest < 0.0) != (y < 0.0)), rest + y, rest),
              a.dtype());
}

// By multiplying where the exponent is a small whole number that is known: exact for integers.
Result Power(Node& node) {
  const Tensor x = node.In(0), y = node.In(1);
  const Known* known = node.Find(y);
  const auto exponents = known != nullptr ? known->Reals() : std::nullopt;
  if (exponents && exponents->size() == 1 && (*exponents)[0] >= 1 && (*exponents)[0] <= 16 &&
      std::trunc((*exponents)[0]) == (*exponents)[0]) {
    Tensor result = x;
    for (int i = 1; i < static_cast<int>((*exponents)[0]); ++i) result = result * x;
    return BroadcastAs(result, y);
  }
  if (IsFloat(x.dtype())) return Cast(Pow(Widened(x), Cast(y, Widened(x).dtype())), x.dtype());
  return Cast(RoundEven(Pow(Cast(x, v1::FLOAT64), Cast(y, v1::FLOAT64))), x.dtype());
}

// One after the other over all inputs.
template <typename F>
Result Fold(Node& node, F&& f) {
  Tensor result = node.In(0);
  for (size_t i = 1; i < node.inputs(); ++i) result = f(result, node.In(i));
  return result;
}

Result MeanOfAll(Node& node) {
  Tensor sum = Widened(node.In(0));
  for (size_t i = 1; i < node.inputs(); ++i) sum = sum + Widened(node.In(i));
  return Cast(sum * (1.0 / static_cast<double>(node.inputs())), node.In(0).dtype());
}

// Bounds were attributes before opset 11.
Result Clip(Node& node) {
  Tensor x = node.In(0);
  if (node.opset() < 11) {
    if (node.HasAttribute("min")) x = Maximum(x, node.graph().Constant(node.Float("min"), x.dtype()));
    if (node.HasAttribute("max")) x = Minimum(x, node.graph().Constant(node.Float("max"), x.dtype()));
    return x;
  }
  if (node.Has(1)) x = Maximum(x, node.In(1));
  if (node.Has(2)) x = Minimum(x, node.In(2));
  return x;
}

Result Round(Node& node) { return IsInteger(node.In(0).dtype()) ? node.In(0) : RoundEven(node.In(0)); }
Result SumOfAll(Node& node) {
  return Fold(node, [](Tensor a, Tensor b) { return a + b; });
}
Result MaxOfAll(Node& node) {
  return Fold(node, [](Tensor a, Tensor b) { return Maximum(a, b); });
}
Result MinOfAll(Node& node) {
  return Fold(node, [](Tensor a, Tensor b) { return Minimum(a, b); });
}

constexpr OpRow kRows[] = {
    KILN_BINARY("Add", 7, a + b),
    KILN_BINARY("Sub", 7, a - b),
    KILN_BINARY("Mul", 7, a* b),
    {"Div", 7, Divide, 2, 2},
    {"Mod", 10, Modulo, 2, 2},
    {"Pow", 7, Power, 2, 2},
    {"Sum", 6, SumOfAll, 1, kAny},
    {"Mean", 6, MeanOfAll, 1, kAny},
    {"Max", 6, MaxOfAll, 1, kAny},
    {"Min", 6, MinOfAll, 1, kAny},
    {"Clip", 6, Clip, 1, 3},
    {"Round", 11, Round, 1, 1},
    KILN_UNARY("Neg", 6, -x),
    KILN_UNARY("Abs", 6, Abs(x)),
    KILN_UNARY("Sign", 9, Sign(x)),
    KILN_UNARY("Floor", 6, Floor(x)),
    KILN_UNARY("Ceil", 6, Ceil(x)),
    KILN_UNARY("Reciprocal", 6, InWide(x, [](Tensor y) { return Reciprocal(y); })),
    KILN_UNARY("Sqrt", 6, InWide(x, [](Tensor y) { return Sqrt(y); })),
    KILN_UNARY("Exp", 6, InWide(x, [](Tensor y) { return Exp(y); })),
    KILN_UNARY("Log", 6, InWide(x, [](Tensor y) { return Log(y); })),
};

}  // namespace

OpRows ElementwiseOps() { return kRows; }

}  // namespace kiln::onnx
