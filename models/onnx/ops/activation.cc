// Activation functions, and what normalizes along an axis by exponentials.
//
// Tested by models/onnx/import_test.cc and tests/onnx/onnx_test.py.
#include "models/onnx/ops/common.h"

namespace kiln::onnx {
namespace {

using namespace client;  // NOLINT: the builder's functions are this room's words

// log(1 + e^x), which for large x is x: e^-|x| never overflows.
Tensor Softplus(Tensor x) { return Maximum(x, 0.0) + Log(1.0 + Exp(-Abs(x))); }
Tensor ErfGelu(Tensor x) { return 0.5 * x * (1.0 + Erf(x * 0.7071067811865476)); }

Result LeakyRelu(Node& node) {
  const Tensor x = node.In(0);
  return Where(x < 0.0, x * node.Float("alpha", 0.01F), x);
}

Result Elu(Node& node) {
  return InWide(node.In(0), [&](Tensor x) { return Where(x < 0.0, node.Float("alpha", 1) * (Exp(x) - 1.0), x); });
}

Result Celu(Node& node) {
  const double alpha = node.Float("alpha", 1);
  return InWide(node.In(0), [&](Tensor x) {
    return Maximum(x, 0.0) + Minimum(alpha * (Exp(x * (1 / alpha)) - 1.0), Filled(x, 0));
  });
}

Result Selu(Node& node) {
  const double alpha = node.Float("alpha", 1.67326319217681884765625F),
               gamma = node.Float("gamma", 1.05070102214813232421875F);
  return InWide(node.In(0), [&](Tensor x) { return gamma * Where(x <= 0.0, alpha * Exp(x) - alpha, x); });
}

Result HardSigmoid(Node& node) {
  return Clamp(node.In(0) * node.Float("alpha", 0.2F) + node.Float("beta", 0.5F), 0, 1);
}

Result Gelu(Node& node) {
  const bool by_tanh = node.Text("approximate", "none") == "tanh";
  return InWide(node.In(0), [&](Tensor x) { return by_tanh ? client::Gelu(x) : ErfGelu(x); });
}

Result ThresholdedRelu(Node& node) {
  const Tensor x = node.In(0);
  return Where(x > node.Float("alpha", 1), x, 0.0);
}

Result Shrink(Node& node) {
  const Tensor x = node.In(0);
  const double bias = node.Float("bias"), lambd = node.Float("lambd", 0.5);
  if (IsFloat(x.dtype())) return Where(x < -lambd, x + bias, Where(x > lambd, x - bias, Filled(x, 0)));
  const Tensor y = Cast(x, v1::FLOAT32);
  return Cast(Where(y < -lambd, y + bias, Where(y > lambd, y - bias, Filled(y, 0))), x.dtype());
}

Result PRelu(Node& node) {
  const Tensor x = node.In(0);
  return Where(x < Filled(x, 0), x * node.In(1), BroadcastAs(x, node.In(1)));
}

Result Swish(Node& node) {
  const double alpha = node.Float("alpha", 1);
  return InWide(node.In(0), [&](Tensor x) { return x * Sigmoid(x * alpha); });
}

// Swish of the gate, times the other.
Result SwiGlu(Node& node) {
  const double alpha = node.Float("alpha", 1);
  const Tensor gate = InWide(node.In(0), [&](Tensor x) { return x * Sigmoid(x * alpha); });
  return gate * node.In(1);
}

// Before opset 13 all axes from `axis` on are one.
template <typename F>
Result AlongAxis(Node& node, F&& f) {
  const Tensor x = node.In(0);
  const bool one = node.opset() >= 13;
  KILN_ASSIGN_OR_RETURN(const int64_t axis, node.Axis(node.Int("axis", one ? -1 : 1), std::max<int64_t>(x.rank(), 1)));
  if (x.rank() == 0) return f(x, 0);
  if (one) return f(x, axis);
  return Reshape(f(client::Flatten(x, axis), axis), x.sizes());
}

Result Softmax(Node& node) {
  return AlongAxis(
      node, [](Tensor x, int64_t axis) { return InWide(x, [&](Tensor y) { return client::Softmax(y, axis); }); });
}

Result LogSoftmax(Node& node) {
  return AlongAxis(
      node, [](Tensor x, int64_t axis) { return InWide(x, [&](Tensor y) { return client::LogSoftmax(y, axis); }); });
}

Result Hardmax(Node& node) {
  return AlongAxis(node, [](Tensor x, int64_t axis) {
    const Tensor places = x.graph()->Arange(x.size(axis));
    return Cast(Along(places, axis, x.rank()) == ArgMax(x, axis, true), x.dtype());
  });
}

constexpr OpRow kRows[] = {
    {"Relu", 6, [](Node& node) -> Result { return Relu(node.In(0)); }, 1, 1},
    {"LeakyRelu", 6, LeakyRelu, 1, 1},
    {"Elu", 6, Elu, 1, 1},
    {"Celu", 12, Celu, 1, 1},
    {"Selu", 6, Selu, 1, 1},
    {"HardSigmoid", 6, HardSigmoid, 1, 1},
    {"Gelu", 20, Gelu, 1, 1},
    {"ThresholdedRelu", 10, ThresholdedRelu, 1, 1},
    {"Shrink", 9, Shrink, 1, 1},
    {"PRelu", 7, PRelu, 2, 2},
    {"Swish", 24, Swish, 1, 1},
    {"SwiGLU", 27, SwiGlu, 2, 2},
    {"Softmax", 1, Softmax, 1, 1},
    {"LogSoftmax", 1, LogSoftmax, 1, 1},
    {"Hardmax", 1, Hardmax, 1, 1},
    KILN_UNARY_IN_WIDE("Sigmoid", 6, Sigmoid(x)),
    KILN_UNARY_IN_WIDE("Tanh", 6, Tanh(x)),
    KILN_UNARY_IN_WIDE("Erf", 9, Erf(x)),
    KILN_UNARY_IN_WIDE("Softplus", 1, Softplus(x)),
    KILN_UNARY_IN_WIDE("Softsign", 1, x / (1.0 + Abs(x))),
    KILN_UNARY_IN_WIDE("Mish", 18, x* Tanh(Softplus(x))),
    KILN_UNARY_IN_WIDE("HardSwish", 14, x* Clamp(x * (1.0 / 6) + 0.5, 0, 1)),
    {"Gelu", 1, [](Node& node) -> Result { return InWide(node.In(0), ErfGelu); }, 1, 1, kMicrosoft},
    {"QuickGelu", 1,
     [](Node& node) -> Result {
       const double alpha = node.Float("alpha", 1.702F);
       return InWide(node.In(0), [&](Tensor x) { return x * Sigmoid(x * alpha); });
     },
     1, 1, kMicrosoft},
    {"FastGelu", 1,
     [](Node& node) -> Result {
       const Tensor x = node.Has(1) ? node.In(0) + node.In(1) : node.In(0);
       return InWide(x, [](Tensor y) { return client::Gelu(y); });
     },
     1, 2, kMicrosoft},
    {"BiasGelu", 1, [](Node& node) -> Result { return InWide(node.In(0) + node.In(1), ErfGelu); }, 2, 2, kMicrosoft},
};

}  // namespace

OpRows ActivationOps() { return kRows; }

}  // namespace kiln::onnx
